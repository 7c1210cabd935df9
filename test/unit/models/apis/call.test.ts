import * as fc from 'fast-check';
import type { ModelApi, ModelCall } from '../../../../src/models/apis/model-api.ts';
import { apis, callOf, callOfText, plainBody } from './builders.ts';

type Fields = Readonly<Record<string, unknown>>;

const user = (content: unknown) => ({ messages: [{ role: 'user', content }] });
const parts = (...list: readonly unknown[]) => ({ contents: [{ role: 'user', parts: list }] });
const png = 'data:image/png;base64,iVBORw0KGgo=';

describe('a call that is plain', () => {
  it.each([
    ['openai-chat', undefined, 1],
    ['openai-responses', undefined, 16],
    ['anthropic-messages', 100, 1],
    ['gemini', undefined, 1],
  ] as const)('%s needs only its model and its input', (api, maxOutputTokens, minOutputTokens) => {
    expect(callOf(api)).toEqual({
      api,
      model: plainBody[api]['model'] ?? 'gemini-3-pro',
      isStream: false,
      maxOutputTokens,
      minOutputTokens,
      answers: 1,
      images: 0,
      isSelfContained: true,
      runsAtProvider: false,
      tier: undefined,
      surcharge: undefined,
    });
  });

  it.each<[string, ModelApi, Fields, Partial<ModelCall>]>([
    ['max_tokens', 'openai-chat', { max_tokens: 7 }, { maxOutputTokens: 7 }],
    ['max_completion_tokens', 'openai-chat', { max_completion_tokens: 8 }, { maxOutputTokens: 8 }],
    [
      'the larger of two limits',
      'openai-chat',
      { max_tokens: 7, max_completion_tokens: 8 },
      { maxOutputTokens: 8 },
    ],
    ['null for none', 'openai-chat', { max_tokens: null, n: null }, { maxOutputTokens: undefined }],
    ['n', 'openai-chat', { n: 3 }, { answers: 3 }],
    ['stream', 'openai-chat', { stream: true, stream_options: null }, { isStream: true }],
    ['max_output_tokens', 'openai-responses', { max_output_tokens: 20 }, { maxOutputTokens: 20 }],
    ['max_tokens 0', 'anthropic-messages', { max_tokens: 0 }, { maxOutputTokens: 0 }],
    [
      'thinking, which ends before the limit',
      'anthropic-messages',
      { max_tokens: 9_000, thinking: { type: 'enabled', budget_tokens: 4_000 } },
      { maxOutputTokens: 9_000, minOutputTokens: 4_001 },
    ],
    [
      'generationConfig',
      'gemini',
      { generationConfig: { maxOutputTokens: 9, candidateCount: 2 } },
      { maxOutputTokens: 9, answers: 2 },
    ],
    [
      'generation_config',
      'gemini',
      { generation_config: { max_output_tokens: 9, candidate_count: 2 } },
      { maxOutputTokens: 9, answers: 2 },
    ],
    ['the model of the path again', 'gemini', { model: 'models/gemini-3-pro' }, {}],
    ['an escaped name', 'openai-chat', {}, {}],
  ])('reads %s', (_title, api, fields, expected) => {
    expect(callOf(api, fields)).toMatchObject(expected);
  });

  it('reads a name with escapes as the name that it is', () => {
    const text = String.raw`{"model":"a","messages":[],"max\u005ftokens":5}`;
    expect(callOfText('openai-chat', text).maxOutputTokens).toBe(5);
  });

  it('streams where the path of Gemini says so', () => {
    expect(callOfText('gemini', JSON.stringify(plainBody.gemini), true).isStream).toBe(true);
  });
});

describe('a body that two parsers may read differently', () => {
  it.each<[string, ModelApi, string]>([
    ['"model" occurs twice', 'openai-chat', '{"model":"cheap","messages":[],"model":"dear"}'],
    [
      '"model" occurs twice',
      'openai-chat',
      String.raw`{"model":"cheap","messages":[],"m\u006fdel":"dear"}`,
    ],
    [
      '"n" occurs twice',
      'openai-responses',
      '{"model":"a","input":[{"role":"user","content":"a","x":[{"n":1,"n":2}]}]}',
    ],
    [
      '"n" occurs twice',
      'openai-chat',
      String.raw`{"model":"a","messages":[],"x":"\\\"","y":"\\\\","n":1,"n":2}`,
    ],
    ['"max_tokens" occurs twice', 'anthropic-messages', '{"max_tokens":1,"max_tokens":2}'],
    [
      '"maxOutputTokens" occurs twice in one object, as "max_output_tokens" too',
      'gemini',
      '{"contents":[],"generationConfig":{"maxOutputTokens":1,"max_output_tokens":2}}',
    ],
    [
      '"generationConfig" occurs twice',
      'gemini',
      '{"contents":[],"generation_config":{},"generationConfig":{}}',
    ],
    ['"Model" must be spelled "model"', 'openai-chat', '{"model":"a","messages":[],"Model":"b"}'],
    [
      '"max_to\u212Aens" must be spelled "max_tokens"',
      'anthropic-messages',
      '{"model":"a","messages":[],"max_to\u212Aens":2}',
    ],
    [
      '"\u017Ftream" must be spelled "stream"',
      'openai-responses',
      '{"model":"a","\u017Ftream":true}',
    ],
    [
      '"Include_Usage" must be spelled "include_usage"',
      'openai-chat',
      '{"model":"a","messages":[],"stream_options":{"Include_Usage":false}}',
    ],
    [
      '"Type" must be spelled "type"',
      'openai-responses',
      '{"model":"a","tools":[{"type":"function","Type":"web_search"}]}',
    ],
    [
      '"generationconfig" must be spelled "generationConfig"',
      'gemini',
      '{"contents":[],"generationconfig":{}}',
    ],
    [
      '"maxoutput_tokens" must be spelled "maxOutputTokens"',
      'gemini',
      '{"contents":[],"generationConfig":{"maxoutput_tokens":1}}',
    ],
  ])('is refused: %s, %s %s', (message, api, text) => {
    expect(() => callOfText(api, text)).toThrow(message);
  });

  it('is refused where a name of many occurs twice', () => {
    const names = Array.from({ length: 100 }, (_, index) => `"x${String(index)}":0`);
    const text = (list: readonly string[]) => `{"model":"a","messages":[],${list.join()}}`;
    expect(callOfText('openai-chat', text(names)).model).toBe('a');
    expect(() => callOfText('openai-chat', text([...names, '"x0":0']))).toThrow(
      '"x0" occurs twice',
    );
  });

  it('is refused for each name that JSON.parse would have replaced', () => {
    const anyName = fc.oneof(
      fc.constantFrom('a', 'model', '__proto__', '\\', '"', ''),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(anyName, { maxLength: 30 }), (names) => {
        const text = `{"model":"a","input":[],"x":[{${names
          .map((name, index) => `${JSON.stringify(name)}:${String(index)}`)
          .join(' , ')}}]}`;
        const isRepeated = new Set(names).size < names.length;
        const read = () => callOfText('openai-responses', text);
        if (isRepeated) expect(read).toThrow('occurs twice');
        else expect(read().model).toBe('a');
      }),
    );
  });

  it('may have names in any case where nothing is read from them', () => {
    const tool = { Type: 'object', type: 'object', Model: 1, model: 2 };
    const tools = [{ type: 'function', function: { name: 'a', parameters: tool } }];
    expect(callOf('openai-chat', { tools }).surcharge).toBeUndefined();
  });
});

describe('a body that is wrong', () => {
  it.each<[string, ModelApi, string | Buffer]>([
    ['must be UTF-8', 'openai-chat', Buffer.from('{"model":"\xff"}', 'latin1')],
    ['must be valid JSON', 'openai-chat', ''],
    ['must be valid JSON', 'openai-chat', '\uFEFF{}'],
    ['must be valid JSON', 'openai-chat', '{"model":"a","messages":[]} {}'],
    ['must be valid JSON', 'openai-chat', String.raw`{"\u00zz":1}`],
    ['must be valid JSON', 'openai-chat', '{"model":"a'],
    ['must be valid JSON', 'openai-chat', '{"max_tokens":NaN}'],
    ['must be a JSON object', 'openai-chat', '[]'],
    ['must be a JSON object', 'gemini', '"a"'],
    ['at most 256 levels', 'openai-chat', `{"x":${'['.repeat(256)}`],
    ['at most 100000 fields and items', 'openai-chat', `{"x":[${'0,'.repeat(100_000)}0]}`],
    [
      'at most 10000 fields',
      'openai-chat',
      `{${Array.from({ length: 10_001 }, (_, index) => `"${String(index)}":0`).join()}}`,
    ],
  ])('is refused: %s', (message, api, text) => {
    expect(() => callOfText(api, text)).toThrow(message);
  });

  it.each<[string, ModelApi, Fields]>([
    ['"model"', 'openai-chat', { model: 7 }],
    ['"model"', 'openai-chat', { model: undefined }],
    ['"model"', 'openai-responses', { model: '' }],
    ['"model"', 'anthropic-messages', { model: 'a'.repeat(257) }],
    ['"model" must be absent or the model of the path', 'gemini', { model: 'models/gemini-4' }],
    ['"models"', 'openai-chat', { models: ['dear'] }],
    ['"extra_body"', 'openai-chat', { extra_body: { model: 'dear' } }],
    ['"extra_headers"', 'anthropic-messages', { extra_headers: { 'anthropic-beta': 'dear' } }],
    ['"preset"', 'openai-chat', { preset: 'dear' }],
    ['"providerOptions"', 'openai-chat', { providerOptions: { gateway: { models: ['dear'] } } }],
    ['must name one model', 'openai-responses', { model: 'cheap,dear' }],
    ['"fallbacks"', 'anthropic-messages', { fallbacks: [{ model: 'dear' }] }],
    ['"api_base"', 'openai-responses', { api_base: 'http://elsewhere' }],
    // LiteLLM sends each of these to another model, with other limits, or more than once.
    ['"extra_body"', 'openai-responses', { extra_body: { model: 'dear' } }],
    ['"extra_body"', 'anthropic-messages', { extra_body: { model: 'dear' } }],
    ['"extra_body"', 'gemini', { extra_body: { generationConfig: { maxOutputTokens: 9999 } } }],
    ['"config"', 'gemini', { config: { maxOutputTokens: 9999 } }],
    ['"deployment_id"', 'openai-chat', { deployment_id: 'dear' }],
    ['"additional_drop_params"', 'openai-chat', { additional_drop_params: ['max_tokens'] }],
    ['"num_retries"', 'openai-chat', { num_retries: 9 }],
    ['"max_retries"', 'openai-chat', { max_retries: 9 }],
    ['"prompt_id"', 'openai-chat', { prompt_id: 'other' }],
    ['"router_settings_override"', 'openai-chat', { router_settings_override: { num_retries: 9 } }],
    ['"extra_headers"', 'openai-chat', { extra_headers: { 'openai-organization': 'other' } }],
    // With these, one call has LiteLLM refuse the model to all callers, for as long as it asks.
    ['"mock_response"', 'openai-chat', { mock_response: 'litellm.RateLimitError' }],
    ['"mock_testing_rate_limit_error"', 'gemini', { mock_testing_rate_limit_error: true }],
    ['"cooldown_time"', 'anthropic-messages', { cooldown_time: 86_400 }],
    ['"litellm_credential_name"', 'openai-chat', { litellm_credential_name: 'other' }],
    ['"stream"', 'openai-chat', { stream: 1 }],
    ['"stream"', 'anthropic-messages', { stream: 'true' }],
    ['"stream_options"', 'openai-chat', { stream_options: true }],
    ['"stream_options.include_usage"', 'openai-chat', { stream_options: { include_usage: 0 } }],
    ['"n"', 'openai-chat', { n: 0 }],
    ['"n"', 'openai-chat', { n: '2' }],
    ['"max_tokens"', 'openai-chat', { max_tokens: -1 }],
    ['"max_tokens"', 'openai-chat', { max_tokens: 0 }],
    ['"max_completion_tokens"', 'openai-chat', { max_completion_tokens: 1.5 }],
    ['"max_output_tokens"', 'openai-responses', { max_output_tokens: 2 ** 53 }],
    ['"max_tokens" is required', 'anthropic-messages', { max_tokens: undefined }],
    ['"max_tokens"', 'anthropic-messages', { max_tokens: -1 }],
    ['"thinking.budget_tokens"', 'anthropic-messages', { thinking: { budget_tokens: -5 } }],
    ['"generationConfig"', 'gemini', { generationConfig: [] }],
    [
      '"generationConfig.maxOutputTokens"',
      'gemini',
      { generation_config: { max_output_tokens: '9' } },
    ],
    ['"generationConfig.maxOutputTokens"', 'gemini', { generationConfig: { maxOutputTokens: 0 } }],
    ['"generationConfig.candidateCount"', 'gemini', { generationConfig: { candidateCount: 0.5 } }],
    ['"tools"', 'openai-chat', { tools: { type: 'function' } }],
    ['"tools"', 'gemini', { tools: ['googleSearch'] }],
    ['"messages"', 'openai-chat', { messages: 'Hello' }],
    ['"messages"', 'anthropic-messages', { messages: ['Hello'] }],
    ['"contents"', 'gemini', { contents: {} }],
  ])('is refused by the name of its field: %s, %s %j', (message, api, fields) => {
    expect(() => callOf(api, fields)).toThrow(message);
  });
});

describe('a call whose input the length of its body bounds', () => {
  it.each<[ModelApi, number, Fields]>([
    ['openai-chat', 0, user([{ type: 'text', text: 'a' }])],
    ['openai-chat', 1, user([{ type: 'image_url', image_url: { url: png } }])],
    ['openai-chat', 1, user([{ type: 'image_url', image_url: { url: 'https://a' } }])],
    [
      'openai-responses',
      1,
      { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'file_1' }] }] },
    ],
    ['anthropic-messages', 1, user([{ type: 'image', source: { type: 'url', url: 'https://a' } }])],
    ['openai-chat', 0, { messages: [{ role: 'assistant', content: null, tool_calls: [] }] }],
    [
      'openai-responses',
      2,
      {
        input: [
          { role: 'user', content: [{ type: 'input_image', image_url: png, detail: 'auto' }] },
          { type: 'function_call_output', output: [{ type: 'input_image', image_url: png }] },
          { type: 'reasoning', summary: [], encrypted_content: 'x' },
          { type: 'shell_call_output', output: [{ stdout: 'a', stderr: '' }] },
        ],
      },
    ],
    [
      'anthropic-messages',
      2,
      user([
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'A' } },
        { type: 'tool_use', id: 'a', name: 'b', input: { type: 'image', file_id: 'c' } },
        { type: 'thinking', thinking: 'a', signature: 'b' },
        {
          type: 'tool_result',
          tool_use_id: 'a',
          content: [{ type: 'image', source: { type: 'base64', data: 'A' } }],
        },
        { type: 'document', source: { type: 'text', data: 'a' } },
      ]),
    ],
    ['gemini', 1, parts({ inline_data: { mime_type: 'image/png', data: 'A' } })],
    [
      'gemini',
      0,
      parts(
        { text: 'a', thought: true, thoughtSignature: 'b' },
        { functionCall: { name: 'a', args: { fileData: 1 } } },
        { functionResponse: { name: 'a', response: { fileData: 1 } } },
      ),
    ],
  ])('%s, with %d images', (api, images, fields) => {
    expect(callOf(api, fields)).toMatchObject({ isSelfContained: true, images });
  });

  it.each<[ModelApi, Fields]>([
    ['openai-chat', user([{ type: 'file', file: { file_id: 'a' } }])],
    ['openai-chat', user([{ type: 'input_audio', input_audio: { data: 'A', format: 'mp3' } }])],
    ['openai-chat', user([{ type: 'video_url', video_url: { url: 'data:video/mp4;base64,A' } }])],
    ['openai-chat', user({ type: 'text', text: 'a' })],
    ['openai-chat', { messages: [{ role: 'assistant', audio: { id: 'a' } }] }],
    ['openai-responses', { previous_response_id: 'resp_1' }],
    ['openai-responses', { conversation: { id: 'conv_1' } }],
    ['openai-responses', { input: [{ type: 'item_reference', id: 'a' }] }],
    ['openai-responses', { input: [{ id: 'a' }] }],
    ['openai-responses', { input: [{ type: 'web_search_call', id: 'a' }] }],
    ['openai-responses', { input: [{ role: 'user', content: [{ type: 'input_file' }] }] }],
    ['anthropic-messages', user([{ type: 'document', source: { type: 'base64', data: 'A' } }])],
    ['anthropic-messages', user([{ type: 'document', source: { type: 'file', file_id: 'a' } }])],
    ['anthropic-messages', user([{ type: 'container_upload', file_id: 'a' }])],
    ['anthropic-messages', user([{ type: 'web_search_tool_result', content: [] }])],
    [
      'anthropic-messages',
      user([{ type: 'tool_result', content: [{ type: 'tool_result', content: [] }] }]),
    ],
    ['anthropic-messages', { thread: { id: 'a' } }],
    ['gemini', parts({ fileData: { fileUri: 'https://a' } })],
    ['gemini', parts({ file_data: { file_uri: 'https://a' } })],
    ['gemini', parts({ inlineData: { mimeType: 'application/pdf', data: 'A' } })],
    ['gemini', parts({ inlineData: { mimeType: 'video/mp4', data: 'A' } })],
    ['gemini', parts({ functionResponse: { response: {}, parts: [{ fileData: {} }] } })],
    ['gemini', { systemInstruction: { parts: [{ fileData: {} }] } }],
    ['gemini', { cached_content: 'cachedContents/a' }],
  ])('is not one of %s with %j', (api, fields) => {
    expect(callOf(api, fields).isSelfContained).toBe(false);
  });
});

describe('a call that costs more than its tokens', () => {
  it.each<[ModelApi, string, Fields]>([
    [
      'openai-chat',
      'tools[1].type "web_search"',
      { tools: [{ type: 'function' }, { type: 'web_search' }] },
    ],
    ['openai-chat', 'tools[0].type of type object', { tools: [{}] }],
    ['openai-chat', '"web_search_options"', { web_search_options: {} }],
    ['openai-chat', '"modalities"', { modalities: ['text', 'audio'] }],
    ['openai-chat', '"prediction"', { prediction: { type: 'content', content: 'a' } }],
    ['openai-chat', '"plugins"', { plugins: [{ id: 'web' }] }],
    // Servers between the relay and the model obey these.
    ...[
      ...['timeout', 'stream_timeout', 'request_timeout', 'vector_store_ids', 'data_sources'],
      ...['provider'],
    ].map((field): [ModelApi, string, Fields] => ['openai-chat', `"${field}"`, { [field]: 1 }]),
    ...[
      ...['web_search', 'web_search_preview', 'file_search', 'code_interpreter', 'mcp'],
      ...['image_generation', 'computer', 'programmatic_tool_calling', 'tool_search', 'unknown'],
    ].map((type): [ModelApi, string, Fields] => [
      'openai-responses',
      `tools[0].type "${type}"`,
      { tools: [{ type }] },
    ]),
    [
      'openai-responses',
      'tools[0].environment.type "container_auto"',
      { tools: [{ type: 'shell', environment: { type: 'container_auto' } }] },
    ],
    [
      'openai-responses',
      'tools[0].tools[0].type "mcp"',
      { tools: [{ type: 'namespace', tools: [{ type: 'mcp' }] }] },
    ],
    [
      'openai-responses',
      'input[0].tools[0].type "mcp"',
      { input: [{ type: 'additional_tools', role: 'developer', tools: [{ type: 'mcp' }] }] },
    ],
    [
      'openai-responses',
      'input[0].tools[0].type "mcp"',
      { input: [{ type: 'of_tomorrow', tools: [{ type: 'mcp' }] }] },
    ],
    ['openai-responses', '"background"', { background: true }],
    ['openai-responses', '"prompt"', { prompt: { id: 'pmpt_1' } }],
    ['openai-responses', '"context_management"', { context_management: [{ type: 'compaction' }] }],
    [
      'openai-responses',
      'input[0].type "compaction_trigger"',
      { input: [{ type: 'compaction_trigger' }] },
    ],
    [
      'anthropic-messages',
      'tools[0].type "web_search_20250305"',
      { tools: [{ type: 'web_search_20250305', name: 'web_search' }] },
    ],
    [
      'anthropic-messages',
      'tools[0].type "advisor_20260301"',
      { tools: [{ type: 'advisor_20260301', model: 'claude-opus-5' }] },
    ],
    ['anthropic-messages', '"mcp_servers"', { mcp_servers: [{ url: 'https://a' }] }],
    ['anthropic-messages', '"container"', { container: 'container_1' }],
    [
      'anthropic-messages',
      'context_management.edits "compact_20260112"',
      { context_management: { edits: [{ type: 'compact_20260112' }] } },
    ],
    [
      'anthropic-messages',
      'messages[].content[].type "tool_addition"',
      user([{ type: 'tool_addition', tool: {} }]),
    ],
    ['gemini', 'tools[0] "googleSearch"', { tools: [{ googleSearch: {} }] }],
    [
      'gemini',
      'tools[1] "code_execution"',
      { tools: [{ function_declarations: [] }, { code_execution: {} }] },
    ],
    [
      'gemini',
      'generationConfig.responseModalities',
      { generation_config: { response_modalities: ['IMAGE'] } },
    ],
    ['gemini', '"cachedContent"', { cachedContent: 'cachedContents/a' }],
  ])('%s: %s', (api, surcharge, fields) => {
    expect(callOf(api, fields)).toMatchObject({ runsAtProvider: true, surcharge });
  });

  it.each<[ModelApi, Fields]>([
    ['openai-chat', { tools: [{ type: 'function' }, { type: 'custom' }], modalities: ['text'] }],
    ['openai-chat', { web_search_options: null, plugins: [], service_tier: 'default' }],
    [
      'openai-responses',
      {
        tools: [
          ...['function', 'custom', 'local_shell', 'apply_patch', 'shell'].map((type) => ({
            type,
          })),
          { type: 'shell', environment: { type: 'local' } },
          { type: 'namespace', tools: [{ type: 'function' }] },
          { type: 'tool_search', execution: 'client' },
        ],
        background: false,
        service_tier: 'auto',
        reasoning: { effort: 'high', mode: 'standard' },
      },
    ],
    [
      'anthropic-messages',
      {
        tools: [
          { name: 'a', input_schema: {} },
          { type: 'custom', name: 'b' },
          { type: null, name: 'c' },
          { type: 'bash_20250124' },
          { type: 'text_editor_20250728' },
          { type: 'computer_20251124' },
          { type: 'memory_20250818' },
        ],
        context_management: { edits: [{ type: 'clear_thinking_20251015' }] },
        service_tier: 'standard_only',
        speed: 'standard',
        ...user([{ type: 'text', text: 'a', cache_control: { type: 'ephemeral', ttl: '5m' } }]),
      },
    ],
    ['gemini', { tools: [{ functionDeclarations: [], googleSearch: null }, {}] }],
    ['gemini', { generationConfig: { responseModalities: ['TEXT'] } }],
  ])('is not one of %s with %j', (api, fields) => {
    expect(callOf(api, fields)).toMatchObject({
      runsAtProvider: false,
      tier: undefined,
      surcharge: undefined,
    });
  });

  it.each<[ModelApi, string, Fields]>([
    ['openai-chat', 'priority', { service_tier: 'priority' }],
    ['openai-responses', 'flex', { service_tier: 'flex' }],
    ['openai-responses', 'fast', { service_tier: 'fast' }],
    ['openai-responses', 'pro', { reasoning: { mode: 'pro' } }],
    ['anthropic-messages', 'fast', { speed: 'fast' }],
    ['anthropic-messages', 'us', { inference_geo: 'us' }],
    ['gemini', 'priority', { service_tier: 'priority' }],
    ['gemini', 'flex', { serviceTier: 'flex' }],
  ])('%s in the tier %s', (api, tier, fields) => {
    expect(callOf(api, fields)).toMatchObject({ tier, runsAtProvider: false });
  });
});

it.each(apis)('no body of %s, however odd, is more than refused', (api) => {
  const word = fc.constantFrom(
    ...['type', 'tools', 'content', 'role', 'url', 'parts', 'text', 'messages', 'input', 'model'],
    ...['contents', 'image_url', 'source', 'inlineData', 'generationConfig', 'edits', 'output'],
  );
  const leaf = fc.oneof(word, fc.constantFrom(null, true, 1, -1, 'image', 'shell', 'document'));
  const value = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 5 },
      leaf,
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(word, tie('value'), { maxKeys: 4 }),
    ),
  })).value;
  fc.assert(
    fc.property(fc.dictionary(word, value, { maxKeys: 6 }), (fields) => {
      try {
        callOf(api, fields);
      } catch (error) {
        expect(error).toMatchObject({ name: 'BadCallError' });
      }
    }),
    { numRuns: 500 },
  );
});
