import { Readable } from 'node:stream';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { unprovenUpdates } from '@conversation-operator/git/pack-head';
import {
  PushError,
  readPush,
  refusalOf,
  PushBody,
  ReportReader,
  type Push,
} from '@conversation-operator/git/receive-pack';
import { smartType } from '@conversation-operator/git/smart-http';
import type { MeasuredRuntime } from '../../observability/runtime.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { PushPolicy } from '../../resources/git-settings.ts';
import { refuseWithText, type GitRelay, type RelayedRequest, type Transfer } from './git-relay.ts';
import type { PrivateHost, Wanted } from './private-host.ts';
import { notFastForward, pushRefusals } from './push-policy.ts';
import type { PushRecords } from './push-records.ts';

export interface PushRelayOptions extends Pick<MeasuredRuntime, 'clock' | 'metrics'> {
  readonly host: Pick<PrivateHost, 'pack' | 'references'>;
  readonly relay: Pick<GitRelay, 'within' | 'answer'>;
  readonly records: Pick<PushRecords, 'begin' | 'end' | 'take'>;
}

const mebibyte = 1_048_576;
/** A hostile pack makes a proof cost memory and time; ordinary work has far fewer commits. */
const proofLimits = { maxPackBytes: 4 * mebibyte, maxCommits: 20_000 } as const;

/** Maximum bytes of a malformed push that are read. */
const maxDiscardedBytes = 16 * mebibyte;

/** The reasons of refused references, by their names. */
type Reasons = ReadonlyMap<string, string>;

const all = ({ commands }: Push, reason: string): Reasons =>
  new Map(commands.map(({ ref }) => [ref, reason]));

class TooLargeError extends Error {
  override readonly name = 'TooLargeError';
}

/** The body of a push as it arrives. The request stays open where its reader stops. */
class IncomingPush {
  readonly #request: IncomingMessage;
  readonly #transfer: Pick<Transfer, 'touch'>;
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(request: IncomingMessage, transfer: Pick<Transfer, 'touch'>, maxBytes: number) {
    this.#request = request;
    this.#transfer = transfer;
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get isTooLarge(): boolean {
    return this.#bytes > this.#maxBytes;
  }

  /** Throws `TooLargeError` after the maximum of bytes. */
  async *read(): AsyncGenerator<Buffer> {
    for await (const piece of this.#pieces()) {
      if (this.isTooLarge) throw new TooLargeError('The push is too large.');
      yield piece;
    }
  }

  /**
   * Discards the rest, by default until twice the maximum has arrived: git reads an answer once it
   * has sent everything.
   */
  async discard(maxBytes = 2 * this.#maxBytes): Promise<void> {
    for await (const _piece of this.#pieces()) if (this.#bytes > maxBytes) return;
  }

  async *#pieces(): AsyncGenerator<Buffer> {
    const pieces = this.#request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>;
    for await (const piece of pieces) {
      this.#transfer.touch();
      this.#bytes += piece.length;
      yield piece;
    }
  }
}

/**
 * Relays pushes of sandboxes to git hosts. The commands of a push are read before the host gets
 * anything of it. A push that the policy does not allow is refused as a whole, with a message that
 * git shows. The pack itself is passed on as it arrives.
 */
export class PushRelay {
  readonly #options: PushRelayOptions;

  constructor(options: PushRelayOptions) {
    this.#options = options;
  }

  /** The caller has authorized the request. */
  async push(
    relayed: RelayedRequest,
    conversation: CachedConversation,
    policy: PushPolicy,
  ): Promise<void> {
    const { relay } = this.#options;
    const { request, response } = relayed.call;
    // Git compresses the body of no push, and nothing here would read one.
    if (request.headers['content-encoding'] !== undefined) {
      refuseWithText(response, 415, 'The body of a push must not be encoded');
      return;
    }
    await relay.within(relayed, async (transfer, wanted) => {
      const incoming = new IncomingPush(request, transfer, policy.maxMebibytes * mebibyte);
      try {
        const pieces = incoming.read();
        const body = new PushBody(pieces);
        const push = await readPush(body);
        const reasons = await this.#reasons(relayed, { push, body, policy, wanted, conversation });
        const passed = { push, body, incoming, transfer, wanted };
        if (reasons.size === 0 && (await this.#pass(relayed, conversation, passed))) return;
        await pieces.return(undefined);
        await incoming.discard();
        const tooLarge = all(push, `a push may have ${policy.maxMebibytes} MiB`);
        this.#refuse(response, push, incoming.isTooLarge ? tooLarge : reasons);
      } catch (error) {
        if (!(error instanceof PushError) && !(error instanceof TooLargeError)) throw error;
        this.#options.metrics.gitPushes.inc({ result: 'refused' });
        await incoming.discard(maxDiscardedBytes);
        refuseWithText(response, error instanceof PushError ? 400 : 413, error.message);
      }
    });
  }

  /** Empty where the push may be passed on. */
  async #reasons(
    { grant }: RelayedRequest,
    {
      push,
      body,
      policy,
      wanted: { owner, signal },
      conversation,
    }: {
      readonly push: Push;
      readonly body: PushBody;
      readonly policy: PushPolicy;
      readonly wanted: Wanted;
      readonly conversation: CachedConversation;
    },
  ): Promise<Reasons> {
    if (push.commands.length === 0) return new Map();
    const refs = await this.#options.host.references({ owner, ...grant, signal });
    if (refs === undefined)
      return all(push, 'the git host does not say which branch is the default one; try again');
    const isEmpty = refs.branches.length === 0;
    const defaultBranch = isEmpty ? undefined : refs.defaultBranch;
    if (!isEmpty && defaultBranch === undefined)
      return all(push, 'the git host does not say which branch is the default one');
    const reasons = pushRefusals(push.commands, { policy, defaultBranch });
    if (reasons.size > 0) return reasons;
    const unproven = await unprovenUpdates(push, body, proofLimits);
    if (unproven.length > 0) return new Map(unproven.map((ref) => [ref, notFastForward]));
    return (await this.#options.records.take(conversation, policy.maxPerHour))
      ? new Map()
      : all(push, `a conversation may push ${policy.maxPerHour} times in an hour; try again later`);
  }

  /** Returns false where the push has turned out to be too large, and nothing was answered. */
  async #pass(
    { call: { response }, grant }: RelayedRequest,
    conversation: CachedConversation,
    {
      push,
      body,
      incoming,
      transfer,
      wanted,
    }: {
      readonly push: Push;
      readonly body: PushBody;
      readonly incoming: IncomingPush;
      readonly transfer: Transfer;
      readonly wanted: Wanted;
    },
  ): Promise<boolean> {
    const { host, relay, records, metrics } = this.#options;
    const { commands } = push;
    const begun =
      commands.length === 0 ? undefined : await records.begin(conversation, grant, commands);
    const report = new ReportReader(push);
    const answer = await host.pack(wanted, Readable.from(body, { objectMode: false }));
    const end = () =>
      begun && records.end(begun, { accepted: report.accepted, bytes: incoming.bytes });
    if (incoming.isTooLarge) {
      await end();
      return false;
    }
    await relay.answer(response, answer, transfer, {
      onBytes: (chunk) => report.push(chunk),
      // Git shows no text of an HTTP error here, but it shows a report.
      refuse: async (status, text) => {
        if (!transfer.signal.aborted) await incoming.discard();
        respond(response, push, all(push, text), status);
      },
    });
    // A host that has not answered may have taken the push all the same.
    if (begun === undefined || answer.kind === 'failed') return true;
    await end();
    metrics.gitPushes.inc({ result: report.accepted.size > 0 ? 'accepted' : 'rejected' });
    return true;
  }

  #refuse(response: ServerResponse, push: Push, reasons: Reasons): void {
    this.#options.metrics.gitPushes.inc({ result: 'refused' });
    respond(response, push, reasons, 403);
  }
}

/** Answers with a report about the references, or with the status where git asked for none. */
function respond(response: ServerResponse, push: Push, reasons: Reasons, status: number): void {
  const body = refusalOf(push, reasons);
  if (body === undefined) {
    refuseWithText(response, status, [...new Set(reasons.values())].join('; '));
    return;
  }
  response.writeHead(200, {
    'content-type': smartType('git-receive-pack', 'result'),
    'cache-control': 'no-store',
  });
  response.end(body);
}
