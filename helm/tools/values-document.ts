import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { isMap, isScalar, parseDocument, type Node, type Pair, type YAMLMap } from 'yaml';
import { z } from 'zod';
import { chartFolder } from './render.ts';

/**
 * The part of the JSON schema that the document needs: named properties, and whether others are
 * allowed.
 */
interface Schema {
  readonly $ref?: string | undefined;
  readonly properties?: Readonly<Record<string, Schema>> | undefined;
  readonly definitions?: Readonly<Record<string, Schema>> | undefined;
}
const schemaSchema: z.ZodType<Schema> = z.lazy(() =>
  z.object({
    $ref: z.string().optional(),
    properties: z.record(z.string(), schemaSchema).optional(),
    definitions: z.record(z.string(), schemaSchema).optional(),
  }),
);

const readChart = (name: string): string => readFileSync(join(chartFolder, name), 'utf8');

export const valuesSchema = (): Schema =>
  schemaSchema.parse(JSON.parse(readChart('values.schema.json')));

export interface Value {
  readonly path: readonly string[];
  /** JSON of the default. */
  readonly fallback: string;
  readonly description: string;
}

/** The paragraph directly before the value; separate paragraphs above describe the file. */
const text = (comment: string | null | undefined): string =>
  (comment ?? '')
    .split(/\n\s*\n/)
    .at(-1)
    ?.replaceAll(/\s*\n\s*/g, ' ')
    .trim() ?? '';

/** Every value of values.yaml in its order; what the schema leaves open is one value as a whole. */
export function chartValues(): {
  readonly values: readonly Value[];
  readonly groups: ReadonlyMap<string, string>;
} {
  const root = valuesSchema();
  const resolve = (schema: Schema | undefined): Schema | undefined =>
    schema?.$ref === undefined
      ? schema
      : root.definitions?.[schema.$ref.replace('#/definitions/', '')];
  const values: Value[] = [];
  const groups = new Map<string, string>();
  const walk = (map: YAMLMap, schema: Schema, path: readonly string[]): void => {
    map.items.forEach((pair: Pair, index) => {
      const { key, value } = pair as Pair<Node, Node | null>;
      const name = String(isScalar(key) ? key.value : key);
      // The comment before the first entry belongs to the map, in the eyes of the parser.
      const description = text(
        key.commentBefore ?? (index === 0 && path.length > 0 ? map.commentBefore : undefined),
      );
      const inner = resolve(schema.properties?.[name]);
      const here = [...path, name];
      if (isMap(value) && inner?.properties !== undefined && !isLeaf(name)) {
        groups.set(here.join('.'), description);
        walk(value, inner, here);
      } else {
        values.push({ path: here, fallback: JSON.stringify(value?.toJSON() ?? null), description });
      }
    });
  };
  const { contents } = parseDocument(readChart('values.yaml'));
  if (!isMap(contents)) throw new Error('values.yaml is not a map');
  walk(contents, root, []);
  return { values, groups };
}

/** Kubernetes' own structure, known to everybody who sets it. */
const isLeaf = (name: string): boolean => name === 'resources';

/** A group with fewer values has no section of its own. */
const minSectionValues = 8;

/** Maximum length of a default that is shown for each agent. */
const maxShownLength = 30;

/** An item of a list: the path of a value, its default, and a description. */
interface Row {
  readonly path: string;
  readonly shown: string;
  readonly about: string;
}

const code = (text: string): string => (text === '""' ? '' : `\`${text}\``);

/** The rows of `agents`, whose values are alike: one for the same value of all agents. */
function agentRows(values: readonly Value[]): readonly Row[] {
  const rests = new Map<string, Value[]>();
  for (const value of values) {
    const rest = value.path.slice(2).join('.');
    rests.set(rest, [...(rests.get(rest) ?? []), value]);
  }
  return [...rests].map(([rest, alike]) => {
    const fallbacks = [...new Set(alike.map(({ fallback }) => fallback))];
    return {
      path: `agents.NAME.${rest}`,
      shown:
        fallbacks.length === 1
          ? code(fallbacks[0] ?? '')
          : alike
              .filter(({ fallback }) => fallback.length <= maxShownLength)
              .map(({ path, fallback }) => `${path[1] ?? ''}: ${code(fallback)}`)
              .join(', '),
      about: alike[0]?.description ?? '',
    };
  });
}

/** The rows of a section. Each group that the heading does not describe has a row of its own. */
function rowsOf(
  section: string,
  values: readonly Value[],
  groups: ReadonlyMap<string, string>,
): readonly Row[] {
  const described = new Set([section]);
  return values.flatMap(({ path, fallback, description }) => {
    const parents = path.slice(0, -1).flatMap((_, index): readonly Row[] => {
      const group = path.slice(0, index + 1).join('.');
      const about = groups.get(group) ?? '';
      if (about === '' || described.has(group)) return [];
      described.add(group);
      return [{ path: group, shown: '', about }];
    });
    return [...parents, { path: path.join('.'), shown: code(fallback), about: description }];
  });
}

/** The names of the values that another section has too, with the same default and description. */
function namesOfSame(values: readonly Value[], others: readonly Value[]): readonly string[] {
  const keyOf = ({ path, fallback, description }: Value) =>
    JSON.stringify([path.slice(1), fallback, description]);
  const known = new Set(others.map(keyOf));
  return values.filter((value) => known.has(keyOf(value))).map(({ path }) => path.join('.'));
}

/** The items of a list. Values without a description that follow each other share an item. */
function itemsOf(rows: readonly Row[]): readonly string[] {
  const items: string[] = [];
  let undescribed: string[] = [];
  const flush = () => {
    if (undescribed.length > 0) items.push(`- ${undescribed.join(', ')}`);
    undescribed = [];
  };
  for (const { path, shown, about } of rows) {
    const value = `\`${path}\`${shown === '' ? '' : ` (${shown})`}`;
    if (about === '') undescribed.push(value);
    else {
      flush();
      items.push(`- ${value}: ${about}`);
    }
  }
  flush();
  return items;
}

/** docs/values.md. */
export async function valuesDocument(): Promise<string> {
  const { values, groups } = chartValues();
  const lines = [
    '<!-- Generated from helm/conversation-operator/values.yaml by `make manifests`. Do not edit. -->',
    '',
    '# Values of the chart',
    '',
    "Each value has its default in brackets. A name that is not here is refused before anything is changed. A Secret, where nothing else is said, is one of the release's namespace.",
  ];
  const sizes = Map.groupBy(values, ({ path: [top = ''] }) => top);
  const sections = Map.groupBy(values, ({ path: [top = ''] }) =>
    (sizes.get(top)?.length ?? 0) < minSectionValues ? 'General' : top,
  );
  for (const [section, itsValues] of sections) {
    const about = groups.get(section) ?? '';
    const same =
      section === 'gateway' || section === 'relay'
        ? namesOfSame(itsValues, sections.get('operator') ?? [])
        : [];
    lines.push('', `## ${section}`, '', ...(about === '' ? [] : [about, '']));
    if (same.length > 0)
      lines.push(`As with \`operator\`: ${same.map((name) => code(name)).join(', ')}.`, '');
    const shown = itsValues.filter(({ path }) => !same.includes(path.join('.')));
    const rows = section === 'agents' ? agentRows(shown) : rowsOf(section, shown, groups);
    lines.push(...itemsOf(rows));
  }
  const style = await resolveConfig(join(chartFolder, '../../docs/values.md'));
  return format(`${lines.join('\n')}\n`, { ...style, parser: 'markdown' });
}
