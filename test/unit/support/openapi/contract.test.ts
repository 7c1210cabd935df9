import { Contract, type SeenAnswer } from '../../../support/openapi/contract.ts';
import {
  operationAt,
  operationsOf,
  type OpenApi,
  type Operation,
  type ResponseObject,
  type Schema,
} from '../../../support/openapi/document.ts';

const thing = {
  type: 'object',
  properties: { id: { type: 'string' }, more: { type: 'null' } },
  required: ['id'],
};
const answer = (schema: Schema): ResponseObject => ({
  headers: {
    'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' },
    'Retry-After': { $ref: '#/components/headers/Retry-After' },
  },
  content: { 'application/json': { schema } },
});
const operation = (operationId: string, more: Partial<Operation> = {}) => ({
  operationId,
  parameters: [],
  responses: { 200: answer({ $ref: '#/components/schemas/Thing' }) },
  ...more,
});
const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
const document = {
  openapi: '3.1.0',
  paths: {
    '/things/{id}': { get: operation('getThing'), delete: operation('deleteThing') },
    '/things/search': {
      get: operation('searchThings', {
        responses: { 200: answer({ type: 'array', items: thing }) },
      }),
    },
    '/things': {
      post: operation('makeThing', {
        requestBody: { required: true, content: { 'application/json': { schema } } },
      }),
    },
  },
  components: {
    headers: {
      'X-Request-Id': { required: true, schema: { type: 'string' } },
      'Retry-After': { schema: { type: 'integer' } },
    },
    schemas: {
      Thing: thing,
      Problem: { type: 'object', properties: { code: { type: 'string' } }, required: ['code'] },
    },
  },
} satisfies OpenApi;

describe('the contract', () => {
  const contract = new Contract(document);
  const headers = {
    'x-request-id': '1',
    'content-type': 'application/json; charset=utf-8',
    'content-length': '9',
  };
  const problem = { ...headers, 'content-type': 'application/problem+json; a="b"' };
  const seen = (
    wish: Partial<Omit<SeenAnswer, 'body'>> & {
      readonly json?: unknown;
      readonly body?: Buffer;
    } = {},
  ): SeenAnswer => ({
    method: 'GET',
    target: '/things/7?x=1',
    status: 200,
    headers,
    body: Buffer.from(JSON.stringify(wish.json ?? { id: 'a' })),
    ...wish,
  });

  it.each<[string, Parameters<typeof seen>[0]]>([
    ['one of the schema', {}],
    [
      'with what is optional',
      { json: { id: 'a', more: null }, headers: { ...headers, 'retry-after': '3' } },
    ],
    ['a list', { target: '/things/search', json: [{ id: 'a' }] }],
    ['no such place', { target: '/nothing', status: 404, json: { code: 'x' }, headers: problem }],
    [
      'no such method',
      { method: 'PUT', status: 405, json: { code: 'x' }, headers: { ...problem, allow: 'GET' } },
    ],
  ])('finds nothing wrong with an answer: %s', (_case, wish) => {
    expect(contract.fault(seen(wish))).toBeUndefined();
  });

  it.each<[string, Parameters<typeof seen>[0], string]>([
    ['a status', { status: 202 }, 'documents no status 202'],
    [
      'a type',
      { headers: { ...headers, 'content-type': 'text/html' } },
      'documents no text/html content',
    ],
    ['no type', { headers: { 'x-request-id': '1' } }, 'documents no empty content'],
    ['a header', { headers: { ...headers, server: 'x' } }, 'the header server is not documented'],
    [
      'no header',
      { headers: { 'content-type': 'application/json' } },
      'the header X-Request-Id is missing',
    ],
    [
      'a header of another type',
      { headers: { ...headers, 'retry-after': 'soon' } },
      'the header Retry-After is soon',
    ],
    ['a field less', { json: {} }, "must have required property 'id'"],
    ['a field more', { json: { id: 'a', secret: 1 } }, 'must NOT have additional properties'],
    [
      'a field more, in a list',
      { target: '/things/search', json: [{ id: 'a', secret: 1 }] },
      'must NOT have additional properties',
    ],
    ['no JSON', { body: Buffer.from('<html>') }, 'no JSON in UTF-8'],
    ['no UTF-8', { body: Buffer.from([0x22, 0xff, 0x22]) }, 'no JSON in UTF-8'],
    ['another status where nothing is', { target: '/nothing', status: 200 }, 'answered by 200'],
    [
      'a problem of another type',
      { target: '/nothing', status: 404, json: { code: 'x' } },
      'a problem is no application/json',
    ],
    ['no Allow', { method: 'PUT', status: 405, json: { code: 'x' } }, 'Allow belongs to 405'],
    [
      'no problem',
      { target: '/nothing', status: 404, json: {}, headers: problem },
      "must have required property 'code'",
    ],
  ])('notices what is not documented: %s', (_case, wish, fault) => {
    expect(contract.fault(seen(wish))).toContain(fault);
  });

  it('knows which bodies are allowed', () => {
    const make = operationAt(operationsOf(document), 'POST', '/things');
    expect(
      make &&
        [{ name: 'x' }, { name: 'x', more: 1 }, { name: 7 }, {}, null].map((body) =>
          contract.allowsBody(make, body),
        ),
    ).toEqual([...[true, true], ...[false, false, false]]);
  });
});
