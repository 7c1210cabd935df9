import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { problemSchema, problemType } from '../../../src/gateway/errors/problem-response.ts';

export interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface RawOutcome {
  readonly answers: readonly RawAnswer[];
  /** All that came, in latin1. */
  readonly text: string;
  /** Whether the server has ended the connection. */
  readonly isClosed: boolean;
}

/** Texts that no answer may ever contain. */
const internals =
  /node:|node_modules|\n\s+at |\.[jt]s:\d|TypeError|RangeError|SyntaxError|HPE_|ECONN|UND_ERR|undici|express|zod|etcd|kubernetes/i;

/** The answers that a text of bytes begins with. */
export function parseAnswers(text: string): RawAnswer[] {
  const answers: RawAnswer[] = [];
  for (let rest = text; ;) {
    const end = rest.indexOf('\r\n\r\n');
    if (end < 0) return answers;
    const [statusLine = '', ...lines] = rest.slice(0, end).split('\r\n');
    const headers = Object.fromEntries(
      lines.map((line) => [
        line.slice(0, line.indexOf(':')).toLowerCase(),
        line.slice(line.indexOf(':') + 1).trim(),
      ]),
    );
    const status = Number(statusLine.split(' ')[1]);
    rest = rest.slice(end + 4);
    if (status >= 100 && status < 200 && status !== 101) continue;
    const length = status === 204 || status === 304 ? '0' : headers['content-length'];
    const chunkedEnd =
      headers['transfer-encoding'] === 'chunked' ? rest.indexOf('0\r\n\r\n') : undefined;
    if (chunkedEnd !== undefined && chunkedEnd < 0) return answers;
    const size =
      chunkedEnd !== undefined
        ? chunkedEnd + 5
        : length === undefined
          ? rest.length
          : Number(length);
    if (rest.length < size) return answers;
    answers.push({ status, headers, body: rest.slice(0, size) });
    rest = rest.slice(size);
    if (rest === '') return answers;
  }
}

export async function openRaw(port: number, localAddress?: string): Promise<Socket> {
  const socket = connect({
    port,
    host: '127.0.0.1',
    ...(localAddress === undefined ? {} : { localAddress }),
  });
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket;
}

/**
 * Sends bytes as they are, and reads until `answers` answers are there or the server has ended the
 * connection. Rejects when neither happens: no sent request may hang.
 */
export async function sendRaw(
  port: number,
  bytes: string | Buffer | readonly (string | Buffer)[],
  options: { readonly answers?: number; readonly deadlineMs?: number } = {},
): Promise<RawOutcome> {
  const { answers: wanted = 1, deadlineMs = 30_000 } = options;
  const socket = await openRaw(port);
  const { promise, resolve, reject } = Promise.withResolvers<RawOutcome>();
  let text = '';
  const timer = setTimeout(
    () => reject(new Error(`neither answered nor closed; so far: ${text}`)),
    deadlineMs,
  );
  const finish = (isClosed: boolean) => resolve({ answers: parseAnswers(text), text, isClosed });
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
    if (parseAnswers(text).length >= wanted) finish(false);
  });
  socket.once('close', () => finish(true));
  socket.once('end', () => finish(true));
  const parts: readonly (string | Buffer)[] =
    typeof bytes === 'string' || Buffer.isBuffer(bytes) ? [bytes] : bytes;
  for (const part of parts)
    socket.write(typeof part === 'string' ? Buffer.from(part, 'latin1') : part);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}

/** Every answer is documented, refusals have a problem, and none has internals of the servers. */
export function expectDecent({ answers, text }: RawOutcome): void {
  expect(text).not.toMatch(internals);
  for (const { status, headers, body } of answers) {
    expect(status).toBeLessThan(500);
    if (status < 400) continue;
    expect(headers['content-type']).toBe(problemType);
    const problem: unknown = JSON.parse(Buffer.from(body, 'latin1').toString());
    expect(problemSchema.parse(problem)).toEqual(problem);
    expect(problem).toMatchObject({ status });
  }
}

/** The status and code of the first answer; `closed` where the connection ended without one. */
export function verdictOf(outcome: RawOutcome): string {
  const [first] = outcome.answers;
  if (first === undefined) return outcome.isClosed ? 'closed' : 'nothing';
  if (first.status < 400) return String(first.status);
  return `${first.status} ${problemSchema.parse(JSON.parse(Buffer.from(first.body, 'latin1').toString())).code}`;
}
