import { readFileSync } from 'node:fs';
import { Ajv, type ErrorObject } from 'ajv';

/** Ten operations and four examples of GitHub's OpenAPI description, as plain JSON Schema. */
const { schema, examples } = JSON.parse(
  readFileSync('test/support/github-schema.json', 'utf8'),
) as { readonly schema: object; readonly examples: Readonly<Record<GithubExample, object>> };

export type GithubExample = 'installation' | 'pull' | 'reviewComment' | 'comment';
export type SchemaSide = 'query' | 'in' | 'out';

const isDateTime = (text: string): boolean =>
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(text);

function newAjv(coerceTypes: boolean): Ajv {
  const ajv = new Ajv({ strict: false, allErrors: true, coerceTypes });
  ajv.addFormat('uri', (text) => URL.canParse(text));
  ajv.addFormat('date-time', isDateTime);
  for (const name of ['email', 'int64', 'repo.nwo', 'timestamp']) ajv.addFormat(name, true);
  ajv.addSchema(schema);
  return ajv;
}

const strict = newAjv(false);
/** The values of a query are texts. */
const lenient = newAjv(true);

/** Violations of GitHub's description by one side of an operation: `GET /repos/{owner}/{repo}`. */
export function githubErrors(side: SchemaSide, operation: string, value: unknown): string[] {
  const id = encodeURIComponent(`${side}:${operation}`.replaceAll('~', '~0').replaceAll('/', '~1'));
  const validate = (side === 'query' ? lenient : strict).getSchema(`github#/definitions/${id}`);
  if (validate === undefined) return [`${operation} has no ${side}`];
  if (validate(structuredClone(value)) === true) return [];
  const described = ({ instancePath, message = '' }: ErrorObject) =>
    `${operation} ${side}${instancePath} ${message}`;
  return (validate.errors ?? []).map(described);
}

/** A copy of GitHub's own example, with what its schema requires and the example lacks. */
export function githubExample(name: GithubExample): Record<string, unknown> {
  const value = structuredClone(examples[name]) as Record<string, unknown>;
  if (name !== 'pull') return value;
  const teams = value['requested_teams'] as Record<string, unknown>[];
  const lacking = { type: 'organization', parent: null };
  return { ...value, requested_teams: teams.map((team) => ({ ...lacking, ...team })) };
}
