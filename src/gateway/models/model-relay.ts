import type { Readable } from 'node:stream';
import { withoutSecrets } from '../../agent/redaction.ts';
import { AnswerReader } from '../../models/apis/answer.ts';
import type { ModelApi } from '../../models/apis/model-api.ts';
import { streamErrorOf } from '../../models/apis/refusals.ts';
import { rateLimitOf, type RateLimit } from '../../models/rate-limit.ts';
import type { MeasuredRuntime } from '../../observability/metrics.ts';
import type { CallbackRequest } from '../callback-server/callback-server.ts';
import { Transfer, type TransferLimits } from '../callback-server/transfer.ts';
import type { CallOutcome, OpenAccount } from './call-accounts.ts';
import { CallRefused } from './call-refused.ts';
import { answerHeadersOf } from './forwarded-headers.ts';
import {
  errorInAnswer,
  failureOfCall,
  failureOfStatus,
  failureOfStream,
  webPage,
  type ProviderFailureCounts,
} from './provider-failures.ts';
import { ProviderError, type ProviderAnswer, type Providers } from './providers.ts';

export interface RelayedCall {
  readonly call: Pick<CallbackRequest, 'request' | 'response' | 'signal'>;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: Buffer | undefined;
  /** The key of the model, which no answer may contain; undefined if there is none. */
  readonly key: string | undefined;
  /** Absent for a request that is not counted. */
  readonly counted?: {
    readonly api: ModelApi;
    readonly account: Pick<OpenAccount, 'settle'>;
    /** Called when the provider answers with anything but a rate limit or a failure of its own. */
    readonly onAccepted: () => void;
  };
}

/** A provider's refusal of a counted call that passes, and of which nothing was sent. */
export interface LimitedCall extends RateLimit {
  /** Sends the refusal, with the time after which the agent may try again. */
  readonly send: (retryAfterSeconds: number) => void;
}

export interface ModelRelayOptions extends Pick<MeasuredRuntime, 'clock' | 'logger' | 'metrics'> {
  readonly providers: Pick<Providers, 'send'>;
  readonly limits: TransferLimits;
  readonly failures: Pick<ProviderFailureCounts, 'count'>;
}

/** Maximum bytes of an error of a provider; a longer one is replaced by the relay's own. */
const maxErrorBytes = 256 * 1024;

/** Sends calls to providers, and their answers to agents as they arrive. */
export class ModelRelay {
  readonly #options: ModelRelayOptions;

  constructor(options: ModelRelayOptions) {
    this.#options = options;
  }

  /**
   * Resolves when the answer has been sent, or with a rate limit of the provider, and settles the
   * account in every case. Throws `CallRefused` if nothing was sent to the agent. An answer that
   * breaks off is broken off.
   */
  async relay(relayed: RelayedCall): Promise<LimitedCall | undefined> {
    const { clock, limits, logger } = this.#options;
    const { counted, call } = relayed;
    const { response, signal } = call;
    const transfer = new Transfer(limits, { clock, signal });
    try {
      const answer = await this.#ask(relayed, transfer.signal);
      this.#options.failures.count(relayed.url.host, failureOfStatus(answer.status));
      if (answer.status < 400) {
        counted?.onAccepted();
        await this.#sendAnswer(answer, relayed, transfer);
        return undefined;
      }
      counted?.account.settle({ kind: lateStatuses.has(answer.status) ? 'broken' : 'failed' });
      const error = await readError(answer, transfer.signal);
      const text = error.bytes?.toString() ?? '';
      const limited = counted && rateLimitOf({ ...error, text }, clock.now());
      if (limited !== undefined)
        return { ...limited, send: (seconds) => sendError(error, relayed, seconds) };
      if (answer.status < 500) counted?.onAccepted();
      sendError(error, relayed);
      return undefined;
    } catch (error) {
      if (!response.headersSent) throw error;
      logger.info('An answer of a model was broken off', { error });
      response.destroy();
      return undefined;
    } finally {
      transfer.end();
    }
  }

  async #ask(
    { call: { request, signal: agent }, url, headers, body, counted }: RelayedCall,
    signal: AbortSignal,
  ): Promise<ProviderAnswer> {
    const method = request.method === 'GET' ? 'GET' : 'POST';
    const { providers, clock, metrics } = this.#options;
    const began = clock.monotonic();
    try {
      const answer = await providers.send({ method, url, headers, body, signal });
      if (counted !== undefined) {
        const seconds = (clock.monotonic() - began) / 1000;
        metrics.modelFirstByteSeconds.observe({ api: counted.api }, seconds);
      }
      if (answer.status < 300 || answer.status >= 400) return answer;
      answer.body.destroy();
      throw new ProviderError(
        `The provider of the model redirects with status ${answer.status}, which the relay does not follow.`,
        false,
        { redirect: answer.status },
      );
    } catch (error) {
      const mayBeCharged = !(error instanceof ProviderError) || error.mayBeCharged;
      counted?.account.settle({ kind: mayBeCharged ? 'broken' : 'not-made' });
      const ended = { hasLeft: agent.aborted, isLate: signal.aborted };
      this.#options.failures.count(url.host, failureOfCall(error, ended));
      this.#options.logger.warn('A provider of models gave no answer', {
        provider: url.host,
        error,
      });
      throw new CallRefused('upstream', noAnswerOf(error, signal), { cause: error });
    }
  }

  async #sendAnswer(
    answer: ProviderAnswer,
    { call: { response, signal }, url: { host }, key, counted }: RelayedCall,
    transfer: Transfer,
  ): Promise<void> {
    const type = String(answer.headers['content-type'] ?? '');
    if (counted !== undefined && /^\s*text\/html\b/i.test(type)) {
      answer.body.destroy();
      counted.account.settle({ kind: 'failed' });
      this.#options.failures.count(host, webPage);
      throw new CallRefused('upstream', 'The provider of the model answers with a web page.');
    }
    const reader = counted && new AnswerReader(counted.api, type);
    const isStream = /^\s*text\/event-stream\b/i.test(type);
    try {
      response.writeHead(answer.status, answerHeadersOf(answer.headers, key));
      // The events of a stream may follow much later; all else comes with its first bytes.
      if (isStream) response.flushHeaders();
      await transfer.send(response, answer.body, (chunk) => reader?.push(chunk));
    } catch (error) {
      const ended = {
        hasLeft: signal.aborted || response.destroyed,
        isLate: transfer.late.aborted,
      };
      this.#options.failures.count(host, failureOfStream(ended));
      const isReadable = answer.headers['content-encoding'] === undefined;
      if (counted === undefined || reader?.isBetweenEvents !== true || !isReadable) throw error;
      // The agent has read all that came, so that it reads the reason, too.
      if (signal.aborted || response.destroyed || response.writableLength > 0) throw error;
      this.#options.logger.info('A stream of a model has broken off', { error });
      const reason = transfer.late.aborted
        ? 'The answer of the model has taken too long.'
        : 'The answer of the model has broken off.';
      response.end(streamErrorOf(counted.api, 'upstream', reason));
    } finally {
      answer.body.destroy();
      if (reader !== undefined) {
        const outcome = outcomeOf(reader);
        counted?.account.settle(outcome);
        if (outcome.kind === 'failed') this.#options.failures.count(host, errorInAnswer);
      }
    }
  }
}

/** An error in an answer that has a usage costs what the usage says. */
function outcomeOf(reader: AnswerReader): CallOutcome {
  const { usage } = reader.end();
  if (usage !== undefined) return { kind: 'answered', usage };
  return { kind: reader.isOnlyError ? 'failed' : 'broken' };
}

function noAnswerOf(error: unknown, signal: AbortSignal): string {
  if (error instanceof ProviderError && !signal.aborted) return error.message;
  return 'The provider of the model has not answered in time.';
}

/**
 * Statuses of a provider, or of a proxy before it, that has given up waiting for an answer. A part
 * of the answer has been made, and may be charged; a call can ask for a short wait.
 */
const lateStatuses: ReadonlySet<number> = new Set([408, 504]);

/** An error of a provider. */
interface AnsweredError extends Pick<ProviderAnswer, 'status' | 'headers'> {
  /** Undefined: it is compressed, too long, has broken off, or is about the key. */
  readonly bytes: Buffer | undefined;
}

/** Whether the provider refuses the key itself. Agents need not see what it says about that. */
const isOfKey = (status: number): boolean => status === 401 || status === 403;

/** Reads an error of a provider. A compressed one cannot be searched for the key. */
async function readError(
  { status, headers, body }: ProviderAnswer,
  signal: AbortSignal,
): Promise<AnsweredError> {
  const isReadable = headers['content-encoding'] === undefined && !isOfKey(status);
  const bytes = isReadable ? await bytesOf(body, signal) : undefined;
  if (bytes === undefined) body.destroy();
  return { status, headers, bytes };
}

/** Sends an error of the provider. A key that it repeats is hidden. */
function sendError(
  { status, headers, bytes }: AnsweredError,
  { call: { response }, key }: RelayedCall,
  retryAfterSeconds?: number,
): void {
  if (isOfKey(status))
    throw new CallRefused(
      'not-allowed',
      `The provider of the model refuses the key of the platform (status ${status}).`,
    );
  if (bytes === undefined)
    throw new CallRefused(
      retryAfterSeconds === undefined ? 'upstream' : 'busy',
      `The provider of the model answers with status ${status}.`,
      retryAfterSeconds === undefined ? {} : { retryAfterSeconds },
    );
  const sent =
    key !== undefined && bytes.includes(key)
      ? Buffer.from(withoutSecrets(bytes.toString(), [key]))
      : bytes;
  const { 'retry-after-ms': namedMs, ...others } = answerHeadersOf(headers, key);
  const retry =
    retryAfterSeconds === undefined
      ? { ...(namedMs === undefined ? {} : { 'retry-after-ms': namedMs }) }
      : { 'retry-after': String(retryAfterSeconds) };
  response.writeHead(status, { ...others, ...retry, 'content-length': String(sent.length) });
  response.end(sent);
}

/** The whole body; undefined if it is too long or breaks off. */
async function bytesOf(body: Readable, signal: AbortSignal): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      signal.throwIfAborted();
      bytes += chunk.length;
      if (bytes > maxErrorBytes) return undefined;
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } catch {
    return undefined;
  }
}
