import { isArray, isObject, type Json } from './json.ts';

/**
 * The part of the JSONPath of Kubernetes that printer columns, scale and selectable fields use:
 * `.a.b`, `.a\.b`, `['a.b']`, `[0]`, `[-1]`, `[*]`, `.*` and `[?(@.type=="Ready")].status`.
 * Recursive descent (`..`) is not supported.
 */
export type JsonPath = readonly Step[];

type Step =
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'index'; readonly index: number }
  | { readonly kind: 'each' }
  | {
      readonly kind: 'filter';
      readonly path: JsonPath;
      readonly operator?: string;
      readonly operand?: Json;
    };

const filterPattern =
  /^\[\?\(\s*@((?:\.[^=!<>\s()]+|\[[^\]]+\])*)\s*(?:(==|!=)\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^)\s]+)\s*)?\)\]/;
const stepPatterns: readonly (readonly [RegExp, (match: RegExpExecArray) => Step])[] = [
  [filterPattern, ([, path = '', operator, operand]) => filterStep(path, operator, operand)],
  [/^(?:\[\*\]|\.\*)/, () => ({ kind: 'each' })],
  [/^\[(-?\d+)\]/, ([, index]) => ({ kind: 'index', index: Number(index) })],
  [
    /^\[(?:'([^']*)'|"([^"]*)")\]/,
    ([, single, double]) => ({ kind: 'key', key: single ?? double ?? '' }),
  ],
  [
    /^\.?((?:[^.[\]\\{}]|\\.)+)/,
    ([, key = '']) => ({ kind: 'key', key: key.replaceAll(/\\(.)/g, '$1') }),
  ],
];

function filterStep(path: string, operator: string | undefined, operand: string | undefined): Step {
  const parsed = parseJsonPath(path);
  return operator === undefined || operand === undefined
    ? { kind: 'filter', path: parsed }
    : { kind: 'filter', path: parsed, operator, operand: operandOf(operand) };
}

function operandOf(text: string): Json {
  if (text.startsWith("'")) return text.slice(1, -1);
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

/** @throws SyntaxError for an unsupported path */
export function parseJsonPath(text: string): JsonPath {
  let rest = text.trim();
  if (rest.startsWith('{') && rest.endsWith('}')) rest = rest.slice(1, -1);
  if (rest.startsWith('$')) rest = rest.slice(1);
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

function passes(item: Json, step: Extract<Step, { kind: 'filter' }>): boolean {
  const [found] = findAll(item, step.path);
  if (found === undefined) return false;
  if (step.operator === undefined || step.operand === undefined) return true;
  return (found === step.operand) === (step.operator === '==');
}

const children = (node: Json): readonly Json[] => {
  if (isArray(node)) return node;
  return isObject(node) ? Object.values(node).filter((value) => value !== undefined) : [];
};

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
    case 'each':
      return children(node);
    case 'filter':
      return children(node).filter((item) => passes(item, step));
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
