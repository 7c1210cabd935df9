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

/** docs/values.md. */
export async function valuesDocument(): Promise<string> {
  const { values, groups } = chartValues();
  const lines = [
    '<!-- Generated from helm/conversation-operator/values.yaml by `make manifests`. Do not edit. -->',
    '',
    '# Values of the chart',
    '',
    'A name that is not here is refused before anything is changed. Set them in a file of your own: `helm upgrade --install … -f values.yaml`.',
  ];
  let section: string | undefined;
  for (const { path, fallback, description } of values) {
    const [top = ''] = path;
    const group = path.length === 1 ? 'General' : top;
    if (group !== section) {
      section = group;
      lines.push(
        '',
        `## ${group}`,
        '',
        ...(groups.get(group) ? [groups.get(group) ?? '', ''] : []),
      );
      lines.push('| value | default | |', '| --- | --- | --- |');
    }
    const parents = path
      .slice(0, -1)
      .map((_, index) => path.slice(0, index + 1).join('.'))
      .filter((parent) => parent !== top);
    const about = [...parents.map((parent) => groups.get(parent) ?? ''), description]
      .filter((each) => each !== '')
      .join(' ');
    const shown = fallback === '""' ? '' : `\`${fallback}\``;
    lines.push(
      `| \`${path.join('.')}\` | ${shown.replaceAll('|', '\\|')} | ${about.replaceAll('|', '\\|')} |`,
    );
  }
  const style = await resolveConfig(join(chartFolder, '../../docs/values.md'));
  return format(`${lines.join('\n')}\n`, { ...style, parser: 'markdown' });
}
