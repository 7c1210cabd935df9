/** Answers as the four providers send them, shortened. Each has 110 input and 50 output tokens. */
const sse = (events: readonly (readonly [type: string, data: object])[]): string =>
  events.map(([type, data]) => `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`).join('');
const data = (events: readonly (object | string)[]): string =>
  events
    .map((each) => `data: ${typeof each === 'string' ? each : JSON.stringify(each)}\n\n`)
    .join('');

const chatUsage = {
  prompt_tokens: 110,
  completion_tokens: 50,
  total_tokens: 160,
  prompt_tokens_details: { cached_tokens: 60, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 20 },
};
const chunk = (fields: object) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1_764_000_000,
  model: 'gpt-5.6',
  choices: [],
  ...fields,
});
const delta = (content: string, finish: string | null = null) =>
  chunk({ choices: [{ index: 0, delta: { content }, finish_reason: finish }], usage: null });

const chatWhole = JSON.stringify({
  ...chunk({ object: 'chat.completion' }),
  choices: [
    { index: 0, message: { role: 'assistant', content: 'Hi "usage": {}' }, finish_reason: 'stop' },
  ],
  usage: chatUsage,
});
const chatStream = data([
  delta(''),
  delta('Grüße 😀, {"usage":{"prompt_tokens":1}}'),
  delta('', 'stop'),
  chunk({ usage: chatUsage }),
  '[DONE]',
]);

const response = (status: string, usage: object | null, error: object | null = null) => ({
  id: 'resp_1',
  object: 'response',
  status,
  error,
  model: 'gpt-5.6',
  output: [{ type: 'message', content: [{ type: 'output_text', text: 'Hi 😀' }] }],
  usage,
});
const responseUsage = {
  input_tokens: 110,
  input_tokens_details: { cached_tokens: 60, cache_write_tokens: 10 },
  output_tokens: 50,
  output_tokens_details: { reasoning_tokens: 20 },
  total_tokens: 160,
};
const responseStream = (end: string, last: object) =>
  sse([
    ['response.created', { type: 'response.created', response: response('in_progress', null) }],
    ['response.output_text.delta', { type: 'response.output_text.delta', delta: 'Hi 😀' }],
    [end, { type: end, response: last }],
  ]);

const anthropicStream = sse([
  [
    'message_start',
    {
      type: 'message_start',
      message: {
        id: 'msg_1',
        type: 'message',
        content: [],
        usage: {
          input_tokens: 40,
          cache_creation_input_tokens: 10,
          cache_read_input_tokens: 60,
          output_tokens: 3,
        },
      },
    },
  ],
  ['ping', { type: 'ping' }],
  ['content_block_delta', { type: 'content_block_delta', delta: { text: 'Hi 😀' } }],
  ['message_delta', { type: 'message_delta', delta: {}, usage: { output_tokens: 30 } }],
  [
    'message_delta',
    {
      type: 'message_delta',
      delta: { stop_reason: 'end_turn' },
      usage: { input_tokens: 40, cache_read_input_tokens: null, output_tokens: 50 },
    },
  ],
  ['message_stop', { type: 'message_stop' }],
]);
const anthropicWhole = JSON.stringify({
  id: 'msg_1',
  type: 'message',
  content: [{ type: 'text', text: 'Hi' }],
  usage: {
    input_tokens: 40,
    cache_creation_input_tokens: 10,
    cache_read_input_tokens: 60,
    output_tokens: 50,
  },
});

const geminiPart = (text: string, finishReason?: string, candidatesTokenCount = 1) => ({
  candidates: [{ content: { role: 'model', parts: [{ text }] }, finishReason, index: 0 }],
  usageMetadata: {
    promptTokenCount: 100,
    toolUsePromptTokenCount: 10,
    cachedContentTokenCount: 60,
    candidatesTokenCount,
    thoughtsTokenCount: 20,
    totalTokenCount: 160,
  },
  modelVersion: 'gemini-3-pro',
});
const geminiParts = [geminiPart('Hi 😀 "}'), geminiPart(' there', 'STOP', 30)];

const usage = { inputTokens: 110, cachedInputTokens: 60, cacheWriteTokens: 0, outputTokens: 50 };
const writing = { ...usage, cacheWriteTokens: 10 };
const eventStream = 'text/event-stream; charset=utf-8';
const json = 'application/json; charset=UTF-8';

export const answers = [
  ['openai-chat', 'whole', json, chatWhole, usage],
  ['openai-chat', 'stream', eventStream, chatStream, usage],
  [
    'openai-responses',
    'whole',
    json,
    JSON.stringify(response('completed', responseUsage)),
    writing,
  ],
  [
    'openai-responses',
    'stream',
    eventStream,
    responseStream('response.completed', response('completed', responseUsage)),
    writing,
  ],
  [
    'openai-responses',
    'stream that reached its limit',
    eventStream,
    responseStream('response.incomplete', response('incomplete', responseUsage)),
    writing,
  ],
  ['anthropic-messages', 'whole', json, anthropicWhole, writing],
  ['anthropic-messages', 'stream', eventStream, anthropicStream, writing],
  ['gemini', 'whole', json, JSON.stringify(geminiParts[1], undefined, 2), usage],
  ['gemini', 'stream', eventStream, data(geminiParts), usage],
  [
    'gemini',
    'list',
    json,
    `[${geminiParts.map((each) => JSON.stringify(each, undefined, 2)).join(',\r\n')}]\n`,
    usage,
  ],
] as const;

export const failedAnswers = [
  ['openai-chat', json, '{"error":{"message":"overloaded","type":"server_error"}}'],
  ['openai-chat', eventStream, data([delta('Hi'), { error: { message: 'overloaded' } }])],
  ['openai-chat', eventStream, 'event: error\ndata: overloaded\n\n'],
  ['openai-responses', json, JSON.stringify(response('failed', null, { code: 'server_error' }))],
  [
    'openai-responses',
    eventStream,
    responseStream('response.failed', response('failed', null, { code: 'server_error' })),
  ],
  ['openai-responses', eventStream, sse([['error', { type: 'error', code: 'server_error' }]])],
  ['anthropic-messages', json, '{"type":"error","error":{"type":"overloaded_error"}}'],
  [
    'anthropic-messages',
    eventStream,
    sse([['error', { type: 'error', error: { type: 'overloaded_error' } }]]),
  ],
  ['gemini', json, '[{"error":{"code":503,"status":"UNAVAILABLE"}}]'],
  ['gemini', eventStream, data([geminiPart('Hi'), { error: { code: 503 } }])],
] as const;
