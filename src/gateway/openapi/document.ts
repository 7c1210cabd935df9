import { z } from 'zod';
import { scopeOf, type Route } from '../http/route.ts';
import { problems, type ProblemCode } from '../errors/catalogue.ts';
import { problemSchema } from '../errors/problem-response.ts';
import { componentSchemas, schemaOf, type JsonSchema, type Examples } from './components.ts';
import { conversationExamples } from './examples/conversations.ts';
import { handoverExamples } from './examples/handovers.ts';
import { serviceExamples } from './examples/service.ts';
import { sharingExamples } from './examples/sharing.ts';

/** Examples for every operation. A test validates each one with the schema of its operation. */
export const examples: Examples = {
  ...conversationExamples,
  ...handoverExamples,
  ...serviceExamples,
  ...sharingExamples,
};

const text = (description: string) => ({ description, required: true, schema: { type: 'string' } });
const count = (description: string) => ({
  description,
  required: true,
  schema: { type: 'integer', minimum: 0 },
});
/** A header that some responses do not have. */
const perhaps = (description: string) => ({ ...text(description), required: false });

/** The headers of responses that clients may rely on. */
const responseHeaders = {
  'X-Request-Id': text(
    "Identifies the request for the administrator of the service: the client's own where it is a sane token.",
  ),
  'Retry-After': count('Seconds after which to try again.'),
  'RateLimit-Policy': perhaps(
    'How many requests the key may make in which time, as in draft-ietf-httpapi-ratelimit-headers.',
  ),
  RateLimit: perhaps('How many of these are left, and for how long.'),
  'WWW-Authenticate': text('Bearer.'),
  Deprecation: text('Since when this is deprecated, RFC 9745.'),
  Sunset: text('When it was announced to be removed, RFC 8594.'),
  Link: text('The successor of this.'),
  'Content-Disposition': text('The name of the file.'),
  'Cross-Origin-Resource-Policy': text('same-origin: no page of another origin can show the file.'),
  NextLink: perhaps('The next page, as rel="next", where there is one.'),
} as const;
type Header = Exclude<keyof typeof responseHeaders, 'NextLink'>;

/** References to the headers of a response with this status. */
function headersOf(
  route: Route,
  status: number,
): Readonly<Record<string, { readonly $ref: string }>> {
  const names: readonly Header[] = [
    'X-Request-Id',
    ...((status === 429 || status === 503) && route.path !== '/ready'
      ? (['Retry-After'] as const)
      : []),
    ...(status === 401 ? (['WWW-Authenticate'] as const) : []),
    ...(route.access !== 'open' && status !== 401
      ? (['RateLimit-Policy', 'RateLimit'] as const)
      : []),
    ...(route.deprecated === true ? (['Deprecation', 'Sunset', 'Link'] as const) : []),
    ...(status === 200 && route.mediaType?.startsWith('application/') === true
      ? (['Content-Disposition'] as const)
      : []),
    ...(status === 200 && route.mediaType === 'application/octet-stream'
      ? (['Cross-Origin-Resource-Policy'] as const)
      : []),
  ];
  const references = Object.fromEntries(
    names.map((name) => [name, { $ref: `#/components/headers/${name}` }]),
  );
  return route.hasNextLink === true && status === 200
    ? { ...references, Link: { $ref: '#/components/headers/NextLink' } }
    : references;
}

interface MediaType {
  readonly schema: JsonSchema;
  readonly example?: unknown;
}
type Content = Readonly<Record<string, MediaType>>;

interface ContentOptions {
  readonly mediaType?: string | undefined;
  readonly example?: unknown;
}

const contentOf = (
  schema: z.ZodType,
  io: 'input' | 'output',
  { mediaType = 'application/json', example }: ContentOptions = {},
): Content => ({
  [mediaType]: { schema: schemaOf(schema, io), ...(example === undefined ? {} : { example }) },
});

function parametersOf(schema: z.ZodType | undefined, where: 'path' | 'query' | 'header') {
  if (schema === undefined) return [];
  const { properties = {}, required = [] } = schemaOf(schema, 'input') as {
    readonly properties?: Readonly<Record<string, JsonSchema>>;
    readonly required?: readonly string[];
  };
  return Object.entries(properties).map(([name, { description, ...parameter }]) => ({
    name,
    in: where,
    required: where === 'path' || required.includes(name),
    ...(typeof description === 'string' ? { description } : {}),
    schema: parameter,
  }));
}

const csvExample =
  'key,calls,input_tokens,cached_input_tokens,output_tokens,cost\r\n2026-11-28,12,18000,9000,1200,0.42\r\n';

const when = (holds: boolean, ...codes: readonly ProblemCode[]) => (holds ? codes : []);

const keyProblems: readonly ProblemCode[] = [
  'unauthorized',
  'too-many-attempts',
  'rate-limited',
  'overloaded',
  'unavailable',
  'internal',
];
const bodyProblems: readonly ProblemCode[] = [
  'malformed-json',
  'body-too-large',
  'unsupported-media-type',
  'request-timeout',
];

const commonProblems = (route: Route): readonly ProblemCode[] => [
  ...when(route.access !== 'open', ...keyProblems),
  ...when(scopeOf(route) !== undefined, 'insufficient-scope'),
  ...when(route.access !== 'open' && route.method !== 'get', 'cross-origin-request'),
  // The head of a request may be valid HTTP but have, for example, a query that is not UTF-8.
  'malformed-request',
  // Every endpoint that needs a key rejects unknown parameters and fields with this problem.
  ...when(route.access !== 'open', 'invalid-request'),
  ...when(route.deprecated === true, 'legacy-api-removed'),
  ...when(route.access === 'key' && route.method !== 'get', ...bodyProblems),
];

const descriptions: Readonly<Record<string, string>> = {
  304: 'The client has it: the entity tag of If-None-Match is the present one',
  303: 'The page is at the address of the header Location',
  401: 'The page says why the sign-in was refused',
};

const withoutContent: ReadonlySet<string> = new Set(['204', '303', '304']);

interface ResponseObject {
  readonly description: string;
  readonly headers: ReturnType<typeof headersOf>;
  readonly content: Content;
}

function responsesOf(route: Route): Readonly<Record<string, ResponseObject>> {
  const answers = Object.entries(route.responses).map(
    ([status, schema]): [string, ResponseObject] => [
      status,
      {
        description:
          Number(status) < 300 ? 'Success' : (descriptions[status] ?? 'Not at the moment'),
        headers: headersOf(route, Number(status)),
        content: withoutContent.has(status)
          ? {}
          : {
              ...contentOf(schema, 'output', {
                mediaType: route.mediaType,
                example: examples[route.operationId]?.answers[Number(status)],
              }),
              ...(route.hasCsv === true
                ? contentOf(z.string(), 'output', { mediaType: 'text/csv', example: csvExample })
                : {}),
            },
      },
    ],
  );
  const byStatus = Map.groupBy(
    new Set([...commonProblems(route), ...(route.problems ?? [])]),
    (code) => problems[code].status,
  );
  const ownAnswers = new Map(answers);
  const failures = [...byStatus].map(([status, codes]): [string, ResponseObject] => {
    const own = ownAnswers.get(String(status));
    const titles = codes.map((code) => `${problems[code].title} (${code})`);
    return [
      String(status),
      {
        description: [...(own === undefined ? [] : [own.description]), ...titles].join('; '),
        headers: headersOf(route, status),
        // A page or an error of another standard may have the status of a problem, too.
        content: {
          ...own?.content,
          ...contentOf(problemSchema, 'output', { mediaType: 'application/problem+json' }),
        },
      },
    ];
  });
  return Object.fromEntries(
    [...answers, ...failures].sort(([left], [right]) => Number(left) - Number(right)),
  );
}

/** OpenAPI 3.1 permits names of rights, here the scope of the key, for every kind of credential. */
function securityOf(
  route: Route,
): readonly { readonly bearer?: readonly string[]; readonly sessionKey?: readonly string[] }[] {
  if (route.access === 'open') return [];
  const scope = scopeOf(route);
  const scopes = scope === undefined ? [] : [scope];
  return [{ bearer: scopes }, { sessionKey: scopes }];
}

const operationOf = (route: Route) => ({
  operationId: route.operationId,
  tags: [route.tag],
  summary: route.summary,
  ...(route.deprecated === true ? { deprecated: true } : {}),
  security: securityOf(route),
  parameters: [
    ...parametersOf(route.params, 'path'),
    ...parametersOf(route.query, 'query'),
    ...parametersOf(route.headers, 'header'),
  ],
  ...(route.body === undefined
    ? {}
    : {
        requestBody: {
          required: !route.body.safeParse({}).success,
          content: contentOf(route.body, 'input', { example: examples[route.operationId]?.body }),
        },
      }),
  responses: responsesOf(route),
});

/** The OpenAPI 3.1 document of the routes, generated from the schemas that validate requests. */
export function openApiDocument(
  routes: readonly Route[],
  info: { readonly version: string; readonly serverUrl: string },
) {
  const byPath = Map.groupBy(routes, ({ path }) => path);
  return {
    openapi: '3.1.0',
    info: {
      title: 'conversation-operator',
      version: info.version,
      description: [
        'Starts software agents in sandboxes and follows what they do.',
        'What can not be read as HTTP at all is refused before any of the operations below, and the connection closed: 400 for a malformed',
        'head, 408 for a request that takes too long to come, 431 for a head of more than 16 KiB.',
      ].join(' '),
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: info.serverUrl }],
    paths: Object.fromEntries(
      [...byPath].map(([path, group]) => [
        path,
        Object.fromEntries(group.map((route) => [route.method, operationOf(route)])),
      ]),
    ),
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'An API key, co_….' },
        sessionKey: {
          type: 'apiKey',
          in: 'header',
          name: 'X-Session-API-Key',
          description: 'The same key, for clients that can not send the other.',
        },
      },
      headers: responseHeaders,
      schemas: componentSchemas(),
    },
  };
}

export type OpenApiDocument = ReturnType<typeof openApiDocument>;
