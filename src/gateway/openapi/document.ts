import type { z } from 'zod';
import type { Route } from '../app/route.ts';
import { problems, type ProblemCode } from '../errors/catalogue.ts';
import { problemSchema } from '../errors/problem-body.ts';
import { componentSchemas, schemaOf, type JsonSchema } from './components.ts';

const json = (schema: z.ZodType, io: 'input' | 'output') => ({ 'application/json': { schema: schemaOf(schema, io) } });

function parametersOf(schema: z.ZodType | undefined, where: 'path' | 'query') {
  if (schema === undefined) return [];
  const { properties = {}, required = [] } = schemaOf(schema, 'input') as {
    readonly properties?: Readonly<Record<string, JsonSchema>>;
    readonly required?: readonly string[];
  };
  return Object.entries(properties).map(([name, { description, ...parameter }]) => ({
    name,
    in: where,
    required: where === 'path' || required.includes(name),
    ...(description === undefined ? {} : { description }),
    schema: parameter,
  }));
}

/** What every endpoint may answer beside what it says itself. */
function commonProblems({ access, params, query, body }: Route): readonly ProblemCode[] {
  return [
    ...(access !== 'open' ? (['unauthorized', 'unavailable', 'internal'] as const) : []),
    ...(params !== undefined || query !== undefined || body !== undefined ? (['invalid-request'] as const) : []),
    ...(body === undefined ? [] : (['malformed-json', 'body-too-large', 'unsupported-media-type'] as const)),
  ];
}

function responsesOf(route: Route) {
  const answers = Object.entries(route.answers).map(([status, schema]) => [
    status,
    { description: status === '200' ? 'Success' : 'Not at the moment', content: json(schema, 'output') },
  ]);
  const byStatus = Map.groupBy(new Set([...commonProblems(route), ...(route.problems ?? [])]), (code) => problems[code].status);
  const failures = [...byStatus].map(([status, codes]) => [
    String(status),
    { description: codes.map((code) => `${problems[code].title} (${code})`).join('; '), content: json(problemSchema, 'output') },
  ]);
  return Object.fromEntries([...failures, ...answers].sort(([left], [right]) => Number(left) - Number(right))) as Readonly<
    Record<string, unknown>
  >;
}

const operationOf = (route: Route) => ({
  operationId: route.operationId,
  tags: [route.tag],
  summary: route.summary,
  ...(route.deprecated === true ? { deprecated: true } : {}),
  ...(route.access === 'open' ? { security: [] } : {}),
  parameters: [...parametersOf(route.params, 'path'), ...parametersOf(route.query, 'query')],
  ...(route.body === undefined ? {} : { requestBody: { required: true, content: json(route.body, 'input') } }),
  responses: responsesOf(route),
});

/** The OpenAPI 3.1 document of the routes, made from the very schemas that check requests. */
export function openApiDocument(routes: readonly Route[], info: { readonly version: string; readonly serverUrl: string }) {
  const byPath = Map.groupBy(routes, ({ path }) => path);
  return {
    openapi: '3.1.0',
    info: {
      title: 'conversation-operator',
      version: info.version,
      description: 'Starts software agents in sandboxes and follows what they do.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: info.serverUrl }],
    security: [{ bearer: [] }, { sessionKey: [] }],
    paths: Object.fromEntries(
      [...byPath].map(([path, group]) => [path, Object.fromEntries(group.map((route) => [route.method, operationOf(route)]))]),
    ),
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        sessionKey: { type: 'apiKey', in: 'header', name: 'X-Session-API-Key' },
      },
      schemas: componentSchemas(),
    },
  };
}
