import { errorApiOf, mayBeCounted, operationOf } from '../../../../src/models/apis/operation.ts';

const generate = (api: string, pathModel?: string, isStream?: boolean) => ({
  kind: 'generate',
  api,
  pathModel,
  isStream,
});
const uncounted = (api: string) => ({ kind: 'uncounted', api });

describe('an operation of a model API', () => {
  it.each([
    ['POST', 'chat/completions', generate('openai-chat')],
    ['POST', 'v1/chat/completions', generate('openai-chat')],
    ['POST', 'responses', generate('openai-responses')],
    ['POST', 'v1/responses', generate('openai-responses')],
    ['POST', 'messages', generate('anthropic-messages')],
    ['POST', 'v1/messages', generate('anthropic-messages')],
    ['POST', 'v1/messages/count_tokens', uncounted('anthropic-messages')],
    [
      'POST',
      'v1beta/models/gemini-3-pro:generateContent',
      generate('gemini', 'gemini-3-pro', false),
    ],
    ['POST', 'v1beta/models/g-2.5:streamGenerateContent', generate('gemini', 'g-2.5', true)],
    ['POST', 'models/gemini/g-2.5:generateContent', generate('gemini', 'gemini/g-2.5', false)],
    ['POST', 'models/gemini%2Fg:generateContent', generate('gemini', 'gemini/g', false)],
    [
      'POST',
      'models/ollama/llama3:8b:generateContent',
      generate('gemini', 'ollama/llama3:8b', false),
    ],
    ['POST', 'v1beta/models/gemini-3-pro:countTokens', uncounted('gemini')],
    ['GET', 'models', uncounted('openai-chat')],
    ['GET', 'v1/models', uncounted('openai-chat')],
    ['GET', 'v1/models/gpt-5.6-sol', uncounted('openai-chat')],
    ['GET', 'models/openai/gpt-5.6', uncounted('openai-chat')],
    ['GET', 'v1beta/models', uncounted('gemini')],
    ['GET', 'v1beta/models/gemini-3-pro', uncounted('gemini')],
  ])('%s %s is %j', (method, rest, operation) => {
    expect(operationOf(method, rest)).toEqual(operation);
  });

  it.each([
    ['GET', 'chat/completions'],
    ['DELETE', 'v1/models/gpt-5.6'],
    ['POST', 'models'],
    ['POST', 'embeddings'],
    ['POST', 'responses/compact'],
    ['GET', 'responses/resp_1'],
    ['POST', 'messages/batches'],
    ['POST', 'constructor'],
    ['POST', 'v1/v1/chat/completions'],
    ['POST', '/chat/completions'],
    ['POST', 'chat/completions/'],
    ['POST', 'chat/completions?x'],
    ['POST', 'v1beta/models/a:batchGenerateContent'],
    ['POST', 'v1beta/models/../files/a:generateContent'],
    ['POST', 'v1beta/models/%2e%2e/a:generateContent'],
    ['POST', 'v1beta/models/a%2F..%2Fb:generateContent'],
    ['POST', 'v1beta/models/:generateContent'],
    ['POST', 'v1beta/models/a//b:generateContent'],
    ['POST', 'v1beta/cachedContents'],
    ['GET', 'models/../files'],
    ['GET', 'models/.hidden'],
  ])('%s %s is unknown', (method, rest) => {
    expect(operationOf(method, rest)).toBeUndefined();
  });

  it.each([
    ...[
      'V1/Chat/Completions',
      'v1//chat/completions',
      'v1/chat/completions/',
      'chat%2fcompletions',
    ],
    ...[
      'v1/./chat/completions',
      'v1/x/../chat/completions',
      'chat;a=b/completions;c',
      '%2563hat/completions',
    ],
    ...['chat/completions%00', 'chat/completions%20', 'chat/completions.', 'chat%5ccompletions'],
    ...['chat/completions%3fa', 'openai/deployments/m/chat/completions', 'openai/v1/Responses'],
    ...[
      'anthropic/v1/messages',
      'v1beta/Models/m:generateContent',
      'x/models/m%3AstreamGenerateContent',
    ],
    ...[
      'v1/%25252e%25252e/messages',
      'chat/completions%23x',
      'chat/%2e./x/../completions/../../responses',
    ],
  ])('some server may read %s as one that is counted', (rest) => {
    expect(mayBeCounted(rest)).toBe(true);
  });

  it.each([
    ...['embeddings', 'files', 'v1/messages/batches', 'responses/compact', 'v1/images/generations'],
    ...['models/a:embedContent', 'chat/completions/x', 'xresponses', 'audio/transcriptions', '%zz'],
  ])('no server reads %s as one that is counted', (rest) => {
    expect(mayBeCounted(rest)).toBe(false);
  });

  it.each([
    ['chat/completions', 'openai-chat'],
    ['embeddings', 'openai-chat'],
    ['', 'openai-chat'],
    ['v1/responses/compact', 'openai-responses'],
    ['v1/messages/batches', 'anthropic-messages'],
    ['v1beta/files', 'gemini'],
    ['models/a:embedContent', 'gemini'],
  ])('an error of %s has the shape of %s', (rest, api) => {
    expect(errorApiOf(rest)).toBe(api);
  });
});
