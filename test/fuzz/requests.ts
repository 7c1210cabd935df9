import fc from 'fast-check';
import { knownShare, knownToken } from '../support/gateway/known-share.ts';
import { openApproval } from '../support/gateway/open-approval.ts';
import type { Sent } from '../support/gateway/two-owners.ts';
import type { OpenApi, Operation, Parameter, Schema } from '../support/openapi/document.ts';
import { hostileBody, hostileHeaders, hostileText } from './hostile.ts';
import { Values, type Aim, type Pools } from './values.ts';

export interface Credentials {
  readonly valid: readonly string[];
  readonly others: readonly string[];
  readonly cookies: readonly string[];
}

/** The headers by which a browser names the page that a request comes from. */
const pagesOfRequests = [
  { origin: 'https://agents.example', 'sec-fetch-site': 'same-origin' },
  { origin: 'https://agents.example', 'sec-fetch-site': 'same-origin' },
  { origin: 'https://sbx-1.agents.example', 'sec-fetch-site': 'same-site' },
  { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' },
  { origin: 'null' },
  {},
] as const;

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'];
const wrongPaths = [
  '/',
  '//',
  '/api',
  '/api/v1',
  '/api/v1/app-conversations/',
  '/%',
  '/api/v1/sandboxes/../keys',
  '/API/V1/users/me',
  '/favicon.ico',
];

/** Values of path parameters that are no ids of resources. */
const named: Readonly<Record<string, readonly string[]>> = {
  token: [...Array<string>(5).fill(knownToken), `${knownToken.slice(0, -1)}_`, 'x'],
  share_id: [...Array<string>(3).fill(knownShare), 'x'],
  approval_id: [...Array<string>(3).fill(openApproval.id), 'x'],
};

/** By which pool a path parameter `{id}` is filled. */
const poolOfPath = (path: string): keyof Pools =>
  poolsOfPaths.find(([part]) => path.includes(part))?.[1] ?? 'conversation';
const poolsOfPaths: readonly (readonly [string, keyof Pools])[] = [
  ['sandbox', 'sandbox'],
  ['/keys', 'key'],
  ['/shares', 'shared'],
  ['/handovers', 'handover'],
  ['/handover', 'movable'],
];

const isSendable = (text: string): boolean => /^[\t\x20-\x7e\x80-\xff]*$/.test(text);

const rarely = <T>(oneIn: number, arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ arbitrary: fc.constant(undefined), weight: oneIn - 1 }, { arbitrary, weight: 1 });

/** Lone surrogates have no UTF-8. */
const encoded = (text: string): string => encodeURIComponent(text.toWellFormed());

/** The value in a URL: as it should be, or nearly as it is. */
const inUrl = (text: string, isPlain: boolean): string =>
  isPlain ? text.replaceAll(/[^!$&-;=?-Z_a-z~%]/g, encoded) : encoded(text);

export interface RequestSources {
  readonly pools: Pools;
  /** Aims of operations that seldom get the body, the state and the key with which they succeed. */
  readonly aims: ReadonlyMap<string, readonly Aim[]>;
  readonly credentials: Credentials;
}

export function requestFor(
  document: OpenApi,
  operation: Operation,
  { pools, aims, credentials }: RequestSources,
): fc.Arbitrary<Sent> {
  const values = new Values(document, pools);
  const any = anyRequest(operation, values, { pools, credentials });
  const own = aims.get(operation.operationId);
  return own === undefined ? any : fc.oneof(any, aimedRequest(operation, values, own));
}

function anyRequest(
  operation: Operation,
  values: Values,
  { pools, credentials }: Pick<RequestSources, 'pools' | 'credentials'>,
): fc.Arbitrary<Sent> {
  return fc
    .record({
      target: targetOf(operation, values, pools),
      body: bodyOf(operation, values),
      key: keyHeaders(credentials),
      further: fc.oneof({ arbitrary: fc.constant({}), weight: 3 }, hostileHeaders),
      declared: headersOf(operation, values),
      method: fc.oneof(
        { arbitrary: fc.constant(operation.method), weight: 60 },
        fc.constantFrom(...methods),
      ),
      elsewhere: rarely(80, fc.constantFrom(...wrongPaths)),
    })
    .map(({ target, body, key, further, declared, method, elsewhere }) => ({
      method,
      target: elsewhere ?? target,
      body,
      headers: {
        ...key,
        ...declared,
        ...(body === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': String(body.length) }),
        ...further,
      },
    }));
}

/** A request with nothing odd. */
function aimedRequest(
  { method, path, requestBody }: Operation,
  values: Values,
  aims: readonly Aim[],
): fc.Arbitrary<Sent> {
  const schema: Schema | undefined = requestBody?.content['application/json']?.schema;
  const bodies =
    schema === undefined
      ? fc.constant(undefined)
      : values.valid(schema).map((value) => Buffer.from(JSON.stringify(value)));
  const targetOfAim = ({ params, query }: Aim): string => {
    const filled = path.replaceAll(/\{(\w+)\}/g, (_all, name: string) =>
      encoded(params[name] ?? 'x'),
    );
    return query === undefined ? filled : `${filled}?${new URLSearchParams(query).toString()}`;
  };
  return fc
    .tuple(fc.constantFrom(...aims), bodies)
    .map(([aim, body]) => ({
      method,
      target: targetOfAim(aim),
      body,
      headers: {
        ...aim.headers,
        ...(body === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': String(body.length) }),
      },
    }));
}

function targetOf(
  { path, parameters }: Operation,
  values: Values,
  pools: Pools,
): fc.Arbitrary<string> {
  const inPath = parameters.filter((parameter) => parameter.in === 'path');
  const segment = ({ name }: Parameter) =>
    fc.oneof(
      {
        arbitrary: fc
          .constantFrom(
            ...(name === 'id' ? pools[poolOfPath(path)] : (named[name] ?? ['TOKEN', 'x'])),
          )
          .map((id) => encoded(id)),
        weight: 6,
      },
      fc
        .tuple(hostileText, fc.boolean())
        .map(([text, isPlain]) => inUrl(text, isPlain).replaceAll(/[?]/g, '%3F') || 'x'),
    );
  const segments = fc.tuple(...inPath.map(segment));
  const query = fc.tuple(
    ...parameters
      .filter((parameter) => parameter.in === 'query')
      .map((parameter) => queryOf(parameter, values, path, pools)),
  );
  const further = rarely(
    12,
    fc.tuple(hostileText, hostileText).map(([name, value]) => `${encoded(name)}=${encoded(value)}`),
  );
  return fc.tuple(segments, query, further).map(([ids, parts, more]) => {
    let filled = path;
    for (const [index, { name }] of inPath.entries())
      filled = filled.replace(`{${name}}`, () => ids[index] ?? 'x');
    const all = [...parts, more].filter((part) => part !== undefined && part !== '');
    return all.length === 0 ? filled : `${filled}?${all.join('&')}`;
  });
}

function queryOf(
  { name, required, schema }: Parameter,
  values: Values,
  path: string,
  pools: Pools,
): fc.Arbitrary<string> {
  const pair = (value: unknown, isPlain = false) =>
    `${name}=${inUrl(typeof value === 'string' ? value : JSON.stringify(value), isPlain).replaceAll('#', '%23')}`;
  const pool = path.includes('start-tasks') ? 'startTask' : poolOfPath(path);
  const good =
    schema['type'] === 'array'
      ? fc
          .array(fc.constantFrom(...(path.includes('specs') ? pools.spec : pools[pool])), {
            minLength: 1,
            maxLength: 5,
          })
          .map((ids) => ids.map((id) => pair(id)).join('&'))
      : values.valid(schema, name).map((value) => pair(value));
  const odd = fc.oneof(
    fc
      .tuple(values.near(schema, name), fc.boolean())
      .map(([value, isPlain]) => pair(value, isPlain)),
    fc.tuple(hostileText, fc.boolean()).map(([value, isPlain]) => pair(value, isPlain)),
    fc.constantFrom(name, `${name}=`, `${name}[]=1`, `${name}=1&${name}=2`),
    fc
      .constantFrom(...pools.conversation)
      .map((id) => Array.from({ length: 120 }, () => `${name}=${id}`).join('&')),
  );
  return fc.oneof(
    { arbitrary: good, weight: required ? 10 : 3 },
    { arbitrary: odd, weight: 1 },
    { arbitrary: fc.constant(''), weight: required ? 1 : 12 },
  );
}

/** A body where the operation has one, most of the time; elsewhere sometimes. */
function bodyOf({ requestBody }: Operation, values: Values): fc.Arbitrary<Buffer | undefined> {
  const none = fc.constant(undefined);
  const schema: Schema | undefined = requestBody?.content['application/json']?.schema;
  const json = (arbitrary: fc.Arbitrary<unknown>) =>
    arbitrary.map((value) => Buffer.from(JSON.stringify(value)));
  if (schema === undefined)
    return fc.oneof({ arbitrary: none, weight: 12 }, hostileBody, fc.constant(Buffer.from('{}')));
  return fc.oneof(
    { arbitrary: json(values.valid(schema)), weight: 10 },
    { arbitrary: json(values.near(schema)), weight: 4 },
    { arbitrary: hostileBody, weight: 1 },
    { arbitrary: none, weight: 1 },
  );
}

const headersOf = (
  { parameters }: Operation,
  values: Values,
): fc.Arbitrary<Record<string, string>> => {
  const declared = parameters
    .filter((parameter) => parameter.in === 'header')
    .map(({ name, schema }) => {
      const value = fc.oneof({ arbitrary: values.valid(schema, name), weight: 4 }, hostileText);
      return fc
        .option(value.map(String).filter(isSendable))
        .map((text): [string, string][] => (text === null ? [] : [[name, text]]));
    });
  return fc.tuple(...declared).map((pairs) => Object.fromEntries(pairs.flat()));
};

const keyHeaders = ({
  valid,
  others,
  cookies,
}: Credentials): fc.Arbitrary<Record<string, string>> =>
  fc.oneof(
    {
      arbitrary: fc.constantFrom(...valid).map((key) => ({ authorization: `Bearer ${key}` })),
      weight: 16,
    },
    {
      arbitrary: fc.constantFrom(...valid).map((key) => ({ 'x-session-api-key': key })),
      weight: 2,
    },
    {
      arbitrary: fc
        .tuple(fc.constantFrom(...cookies), fc.constantFrom(...pagesOfRequests))
        .map(([cookie, page]) => ({ cookie, ...page })),
      weight: 10,
    },
    {
      arbitrary: fc
        .tuple(fc.constantFrom(...cookies), hostileText.filter(isSendable))
        .map(([cookie, text]) => ({ cookie: `${cookie.slice(0, -4)}${text.slice(0, 4000)}` })),
      weight: 1,
    },
    {
      arbitrary: fc.constantFrom(...others).map((key) => ({ 'x-session-api-key': key })),
      weight: 1,
    },
    {
      arbitrary: fc.tuple(fc.constantFrom(...valid), fc.constantFrom(...others)).map(both),
      weight: 1,
    },
    {
      arbitrary: fc
        .constantFrom(...others, 'Bearer', '', 'x'.repeat(4000))
        .map((key) => ({ authorization: `Bearer ${key}` })),
      weight: 1,
    },
    {
      arbitrary: hostileText
        .filter((text) => isSendable(text) && text.length < 6000)
        .map((text) => ({ authorization: text })),
      weight: 1,
    },
  );

const both = ([key, other]: [string, string]) => ({
  authorization: `Bearer ${key}`,
  'x-session-api-key': other,
});
