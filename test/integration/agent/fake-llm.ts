import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface LlmRequest {
  readonly authorization: string | undefined;
  readonly model: string;
  readonly messages: readonly { readonly role: string; readonly content: string | null; readonly tool_calls?: readonly unknown[] }[];
}

export type LlmAnswer =
  { readonly tool: string; readonly arguments: unknown } | { readonly text: string } | { readonly status: number } | 'hang';

export interface FakeLlm extends AsyncDisposable {
  readonly baseUrl: string;
  readonly requests: readonly LlmRequest[];
}

/** An OpenAI-compatible endpoint that gives these answers, the last one again and again. */
export async function fakeLlm(...answers: readonly LlmAnswer[]): Promise<FakeLlm> {
  const requests: LlmRequest[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as Omit<LlmRequest, 'authorization'>;
      requests.push({ ...body, authorization: request.headers.authorization });
      const number = requests.length;
      const answer = answers[number - 1] ?? answers.at(-1) ?? 'hang';
      if (answer === 'hang') return;
      response.writeHead('status' in answer ? answer.status : 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify('status' in answer ? { error: { message: 'no' } } : completion(answer, number)));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const completion = (answer: Exclude<LlmAnswer, 'hang' | { status: number }>, number: number) => ({
  id: `completion-${number}`,
  object: 'chat.completion',
  created: 0,
  model: 'm',
  choices: [
    {
      index: 0,
      finish_reason: 'stop',
      message:
        'text' in answer
          ? { role: 'assistant', content: answer.text }
          : {
              role: 'assistant',
              content: null,
              tool_calls: [
                { id: `call-${number}`, type: 'function', function: { name: answer.tool, arguments: JSON.stringify(answer.arguments) } },
              ],
            },
    },
  ],
  usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
});
