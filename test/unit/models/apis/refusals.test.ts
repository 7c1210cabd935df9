import type { ModelApi } from '../../../../src/models/apis/model-api.ts';
import {
  type RefusalKind,
  refusalOf,
  streamErrorOf,
} from '../../../../src/models/apis/refusals.ts';
import { apis } from './builders.ts';

const statuses: Readonly<Record<RefusalKind, number>> = {
  budget: 402,
  'bad-request': 400,
  unauthorized: 401,
  'not-allowed': 403,
  'not-found': 404,
  'too-large': 413,
  busy: 429,
  upstream: 503,
};

describe('a refusal', () => {
  it.each<[ModelApi, object]>([
    [
      'openai-chat',
      {
        error: {
          message: 'a "b"',
          type: 'insufficient_quota',
          code: 'budget_exhausted',
          param: null,
        },
      },
    ],
    [
      'openai-responses',
      {
        error: {
          message: 'a "b"',
          type: 'insufficient_quota',
          code: 'budget_exhausted',
          param: null,
        },
      },
    ],
    [
      'anthropic-messages',
      { type: 'error', error: { type: 'invalid_request_error', message: 'a "b"' } },
    ],
    ['gemini', { error: { code: 402, status: 'FAILED_PRECONDITION', message: 'a "b"' } }],
  ])('for a budget of %s is final', (api, body) => {
    const refusal = refusalOf(api, 'budget', 'a "b"');
    expect(JSON.parse(refusal.body)).toEqual(body);
    expect(refusal).toMatchObject({
      status: api === 'openai-responses' ? 400 : 402,
      headers: { 'content-type': 'application/json', 'x-should-retry': 'false' },
    });
  });

  it.each(apis)('of %s has the status and the shape of its provider, and the message', (api) => {
    for (const [kind, status] of Object.entries(statuses) as [RefusalKind, number][]) {
      const refusal = refusalOf(api, kind, `about ${kind}`);
      const { error } = JSON.parse(refusal.body) as { error: Record<string, unknown> };
      const expected = kind === 'budget' && api === 'openai-responses' ? 400 : status;
      expect([kind, refusal.status, error['message']]).toEqual([kind, expected, `about ${kind}`]);
      if (api === 'gemini') expect(error['code']).toBe(status);
      else expect(error['type']).toMatch(/^[a-z_]+$/);
      if (kind !== 'budget') expect(refusal.headers).not.toHaveProperty('x-should-retry');
    }
  });

  it.each<[ModelApi, RefusalKind, string]>([
    ['openai-chat', 'unauthorized', 'invalid_api_key'],
    ['openai-responses', 'busy', 'rate_limit_exceeded'],
    ['anthropic-messages', 'unauthorized', 'authentication_error'],
    ['anthropic-messages', 'not-allowed', 'permission_error'],
    ['anthropic-messages', 'too-large', 'request_too_large'],
    ['anthropic-messages', 'busy', 'rate_limit_error'],
    ['gemini', 'not-allowed', 'PERMISSION_DENIED'],
    ['gemini', 'busy', 'RESOURCE_EXHAUSTED'],
  ])('of %s for %s is named %s', (api, kind, name) => {
    expect(refusalOf(api, kind, 'a').body).toContain(`"${name}"`);
  });
});

it.each<[ModelApi, string]>([
  [
    'openai-chat',
    'data: {"error":{"message":"a","type":"server_error","code":"upstream_error","param":null}}\n\n',
  ],
  [
    'openai-responses',
    'event: error\ndata: {"type":"error","code":"upstream_error","message":"a","param":null}\n\n' +
      'event: response.failed\ndata: {"type":"response.failed","response":{"object":"response",' +
      '"status":"failed","error":{"code":"upstream_error","message":"a"},"output":[]}}\n\n',
  ],
  [
    'anthropic-messages',
    'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"a"}}\n\n',
  ],
  ['gemini', 'data: {"error":{"code":503,"status":"UNAVAILABLE","message":"a"}}\n\n'],
])('an error in a stream of %s is %s', (api, text) => {
  expect(streamErrorOf(api, 'upstream', 'a')).toBe(text);
});
