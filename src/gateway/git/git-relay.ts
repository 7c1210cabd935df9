import type { IncomingMessage, ServerResponse } from 'node:http';
import { addAbortSignal, Readable } from 'node:stream';
import type { GitStream } from '@conversation-operator/git/git-http';
import { withoutCapabilities } from '@conversation-operator/git/advertisement';
import { pushOptions } from '@conversation-operator/git/receive-pack';
import type { GitService, SmartRequest } from '@conversation-operator/git/smart-http';
import type { RepositoryAddress } from '../../agent/keys.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { CallbackRequest } from '../callback-server/callback-server.ts';
import { Transfer, type TransferLimits } from '../callback-server/transfer.ts';
import type { HostAnswer, PrivateHost, Wanted } from './private-host.ts';
import { ProblemError } from '../errors/problem-error.ts';
import type { MeasuredRuntime } from '../../observability/metrics.ts';

const minTransferMs = 3_600_000;
/** Time that a transfer may take beyond the operator's timeout of the clone. */
const cloneGraceMs = 60_000;

/**
 * Maximum duration of one request, which is longer than the operator's timeout of a clone, because
 * the operator, not the gateway, ends a clone that takes too long.
 */
export const maxTransferMs = (cloneTimeoutSeconds: number): number =>
  Math.max(minTransferMs, cloneTimeoutSeconds * 1000 + cloneGraceMs);

export interface RelayLimits extends TransferLimits {
  readonly maxBodyBytes: number;
}

export interface GitRelayOptions extends Pick<MeasuredRuntime, 'clock' | 'logger' | 'metrics'> {
  readonly host: Pick<PrivateHost, 'advertisement' | 'pack'>;
  readonly limits: RelayLimits;
}

const requestHeaders = [
  'accept',
  'accept-encoding',
  'content-encoding',
  'content-length',
  'content-type',
  'git-protocol',
] as const;
/** The gateway parses the responses to a push, so they must be uncompressed. */
const uncompressed = { 'accept-encoding': 'identity' } as const;
const answerHeaders = ['content-encoding', 'content-type'] as const;

/** Capabilities that the gateway hides from clients, because it rejects pushes that use them. */
const notOffered: ReadonlySet<string> = new Set([pushOptions]);

/** Status and text for each kind of `HostAnswer` that forwards nothing from the host. */
const refusals = {
  open: [404, 'Ask the git host itself'],
  denied: [403, 'There is no such repository, or the credential of its owner does not allow this'],
  locked: [403, 'The gateway has no credential with which to push to this git host'],
  failed: [502, 'The git host can not be asked'],
} as const;

/** A git request of a sandbox, already authorized by the caller. */
export interface RelayedRequest {
  readonly call: CallbackRequest;
  readonly sandbox: Sandbox;
  readonly address: RepositoryAddress;
  readonly asked: Pick<SmartRequest, 'service' | 'part'>;
  /** Whether the gateway also relays reads of public repositories. */
  readonly relaysOpen: boolean;
}

export interface AnswerOptions {
  readonly onBytes?: (chunk: Buffer) => void;
  /** Sends the response if the `HostAnswer` is no stream. If absent, `refuseWithText` sends it. */
  readonly refuse?: (status: number, text: string) => Promise<void>;
}

export class GitRelay {
  readonly #options: GitRelayOptions;

  constructor(options: GitRelayOptions) {
    this.#options = options;
  }

  async relay(relayed: RelayedRequest): Promise<void> {
    const { host, limits } = this.#options;
    const { request, response } = relayed.call;
    await this.within(relayed, async (transfer, wanted) => {
      const answer = await (relayed.asked.part === 'references'
        ? host.advertisement(wanted)
        : host.pack(wanted, bodyOf(request, transfer, limits.maxBodyBytes)));
      await this.answer(response, offered(answer, wanted.service), transfer);
    });
  }

  /** Calls `work` within the time limits. Destroys the response if the transfer is interrupted. */
  async within(
    { call: { request, response, signal }, sandbox, address, asked, relaysOpen }: RelayedRequest,
    work: (transfer: Transfer, wanted: Wanted) => Promise<void>,
  ): Promise<void> {
    const { limits, clock, logger } = this.#options;
    const { metadata, spec } = sandbox;
    const transfer = new Transfer(limits, { clock, signal });
    try {
      await work(transfer, {
        owner: spec.owner,
        ...address,
        service: asked.service,
        relaysOpen,
        headers: headersOf(request, asked.service),
        signal: transfer.signal,
      });
    } catch (error) {
      if (!transfer.signal.aborted && !response.headersSent) throw error;
      logger.info('a transfer of git was interrupted', { sandbox: metadata.name, error });
      response.destroy();
    } finally {
      transfer.end();
    }
  }

  /** Sends the stream of the host, or a refusal. Calls `onBytes` with each sent chunk. */
  async answer(
    response: ServerResponse,
    answer: HostAnswer,
    transfer: Transfer,
    { onBytes, refuse }: AnswerOptions = {},
  ): Promise<void> {
    this.#options.metrics.gitClones.inc({ result: answer.kind });
    if (answer.kind === 'stream') {
      await send(response, answer.stream, transfer, onBytes);
      return;
    }
    const [status, text] = refusals[answer.kind];
    const shown = `${text}${answer.kind === 'failed' ? `: ${answer.reason}` : ''}`;
    if (refuse === undefined) refuseWithText(response, status, shown);
    else await refuse(status, shown);
  }
}

const headersOf = ({ headers }: IncomingMessage, service: GitService): Record<string, string> => ({
  ...Object.fromEntries(
    requestHeaders.flatMap((name) => {
      const value = headers[name];
      return typeof value === 'string' ? [[name, value]] : [];
    }),
  ),
  ...(service === 'git-receive-pack' ? uncompressed : {}),
});

/** Removes the capabilities in `notOffered` from the references for a push. */
function offered(answer: HostAnswer, service: GitService): HostAnswer {
  if (answer.kind !== 'stream' || service !== 'git-receive-pack') return answer;
  const { stream } = answer;
  const body = Readable.from(withoutCapabilities(stream.body, notOffered), { objectMode: false });
  return { kind: 'stream', stream: { ...stream, body } };
}

/** The body of a request. Reading fails with `body-too-large` after more than `maxBytes` bytes. */
function bodyOf(request: IncomingMessage, transfer: Transfer, maxBytes: number): Readable {
  const pieces = transfer.arriving(addAbortSignal(transfer.late, request));
  return Readable.from(bounded(pieces, maxBytes), { objectMode: false });
}

async function* bounded(
  pieces: AsyncIterable<Buffer>,
  maxBytes: number,
): AsyncGenerator<Buffer, void, undefined> {
  let bytes = 0;
  for await (const piece of pieces) {
    bytes += piece.length;
    if (bytes > maxBytes) throw new ProblemError('body-too-large', 'The request is too large.');
    yield piece;
  }
}

async function send(
  response: ServerResponse,
  { headers, body }: GitStream,
  transfer: Transfer,
  onBytes?: (chunk: Buffer) => void,
): Promise<void> {
  response.statusCode = 200;
  response.setHeader('cache-control', 'no-store');
  for (const name of answerHeaders) {
    const value = headers[name];
    if (typeof value === 'string') response.setHeader(name, value);
  }
  await transfer.send(response, body, onBytes);
}

/** Responds with plain text, which git shows to its user. */
export function refuseWithText(
  response: ServerResponse,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, {
    'content-type': 'text/plain',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...headers,
  });
  response.end(`${text}\n`);
}
