import { isArray, isObject, type Json } from './json.ts';

/**
 * The part of Kubernetes' JSONPath that printer columns, scale and selectable fields use: `.a.b`,
 * `.a\.b`, `[0]`, `[-1]` and `[?(@.type=="Ready")].status`.
 */
export type JsonPath = readonly Step[];

type Step =
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'index'; readonly index: number }
  | { readonly kind: 'filter'; readonly path: JsonPath; readonly operand: string };

const stepPatterns: readonly (readonly [RegExp, (match: RegExpExecArray) => Step])[] = [
  [
    /^\[\?\(@((?:\.[\w-]+)+)=="([^"]*)"\)\]/,
    ([, path = '', operand = '']) => ({ kind: 'filter', path: parseJsonPath(path), operand }),
  ],
  [/^\[(-?\d+)\]/, ([, index]) => ({ kind: 'index', index: Number(index) })],
  [
    /^\.?((?:[^.[\]\\{}]|\\.)+)/,
    ([, key = '']) => ({ kind: 'key', key: key.replaceAll(/\\(.)/g, '$1') }),
  ],
];

/** @throws SyntaxError for an unsupported path */
export function parseJsonPath(text: string): JsonPath {
  let rest = text;
  const steps: Step[] = [];
  while (rest !== '' && rest !== '.') {
    const found = stepPatterns
      .map(([pattern, make]) => ({ match: pattern.exec(rest), make }))
      .find(({ match }) => match !== null);
    if (found?.match == null)
      throw new SyntaxError(`unrecognized JSON path ${JSON.stringify(text)}`);
    steps.push(found.make(found.match));
    rest = rest.slice(found.match[0].length);
  }
  return steps;
}

function stepInto(node: Json, step: Step): readonly Json[] {
  switch (step.kind) {
    case 'key': {
      const child = isObject(node) ? node[step.key] : undefined;
      return child === undefined ? [] : [child];
    }
    case 'index': {
      const child = isArray(node) ? node.at(step.index) : undefined;
      return child === undefined ? [] : [child];
    }
    case 'filter':
      return isArray(node)
        ? node.filter((item) => findAll(item, step.path)[0] === step.operand)
        : [];
  }
}

/** Returns every value at the path; none when a key is absent. */
export const findAll = (value: Json, path: JsonPath): readonly Json[] =>
  path.reduce<readonly Json[]>(
    (nodes, step) => nodes.flatMap((node) => stepInto(node, step)),
    [value],
  );

/** Returns the keys of a path of plain keys (`.spec.replicas`); undefined for any other path. */
export function plainKeys(text: string): readonly string[] | undefined {
  const keys = parseJsonPath(text).map((step) => (step.kind === 'key' ? step.key : undefined));
  return keys.every((key) => key !== undefined) ? keys : undefined;
}
