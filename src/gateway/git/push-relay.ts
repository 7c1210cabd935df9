import { addAbortSignal, Readable } from 'node:stream';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { unprovenUpdates } from '@conversation-operator/git/pack-head';
import {
  asksForReport,
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
import type { PushPolicy, PushRecord } from '../../resources/git-settings.ts';
import { refuseWithText, type GitRelay, type RelayedRequest, type Transfer } from './git-relay.ts';
import type { PrivateHost, Wanted } from './private-host.ts';
import { notFastForward, optionsRefusal, pushRefusals } from './push-policy.ts';
import type { PushRecords } from './push-records.ts';

export interface PushRelayOptions extends Pick<MeasuredRuntime, 'clock' | 'metrics'> {
  readonly host: Pick<PrivateHost, 'pack' | 'references'>;
  readonly relay: Pick<GitRelay, 'within' | 'answer'>;
  readonly records: Pick<PushRecords, 'begin' | 'end' | 'take' | 'refuse'>;
}

const mebibyte = 1_048_576;
/** A hostile pack makes a proof cost memory and time; ordinary work has far fewer commits. */
const proofLimits = { maxPackBytes: 4 * mebibyte, maxCommits: 20_000 } as const;

/** Maximum bytes of a malformed push that are read. */
const maxDiscardedBytes = 16 * mebibyte;

type PolicyOf = (repository: string) => PushPolicy;

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
  readonly #transfer: Pick<Transfer, 'arriving'>;
  #maxBytes: number;
  #bytes = 0;

  /** A limit of the transfer ends the request, at whatever stage of the push that is. */
  constructor(
    request: IncomingMessage,
    transfer: Pick<Transfer, 'arriving' | 'late'>,
    maxBytes: number,
  ) {
    this.#request = addAbortSignal(transfer.late, request);
    this.#transfer = transfer;
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get maxBytes(): number {
    return this.#maxBytes;
  }

  /** Lowers the maximum; a higher one changes nothing. */
  limitTo(maxBytes: number): void {
    this.#maxBytes = Math.min(this.#maxBytes, maxBytes);
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
    for await (const piece of this.#transfer.arriving(this.#request)) {
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

  /**
   * The caller has authorized the request.
   *
   * @param policyOf The policy for a repository of this name.
   */
  async push(
    relayed: RelayedRequest,
    conversation: CachedConversation,
    policyOf: PolicyOf,
  ): Promise<void> {
    const policy = policyOf(relayed.grant.repository);
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
        if (push.commands.length > 0 && !asksForReport(push))
          throw new PushError('A push must ask for a report (report-status)');
        const reasons = await this.#reasons(relayed, {
          ...{ push, body, policyOf, wanted, incoming, conversation },
        });
        const passed = { push, body, incoming, transfer, wanted };
        const isAllowed = reasons.size === 0;
        if (isAllowed && (await this.#pass(relayed, conversation, passed))) return;
        await pieces.return(undefined);
        await incoming.discard();
        const tooLarge = all(push, `a push may have ${incoming.maxBytes / mebibyte} MiB`);
        const shown = incoming.isTooLarge ? tooLarge : reasons;
        if (!isAllowed) {
          this.#options.metrics.gitPushes.inc({ result: 'refused' });
          this.#options.records.refuse({
            ...{ conversation, grant: relayed.grant, push, reasons: [...new Set(shown.values())] },
          });
        }
        respond(response, push, shown, 403);
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
      policyOf,
      wanted: { owner, signal },
      conversation,
      incoming,
    }: {
      readonly push: Push;
      readonly body: PushBody;
      readonly policyOf: PolicyOf;
      readonly wanted: Wanted;
      readonly conversation: CachedConversation;
      readonly incoming: IncomingPush;
    },
  ): Promise<Reasons> {
    if (push.commands.length === 0) return new Map();
    if (push.options !== undefined) return all(push, optionsRefusal(push.options));
    const refs = await this.#options.host.references({ owner, ...grant, signal });
    if (refs === undefined)
      return all(push, 'the git host does not say which branch is the default one; try again');
    const isEmpty = refs.branches.length === 0;
    const defaultBranch = isEmpty ? undefined : refs.defaultBranch;
    if (!isEmpty && defaultBranch === undefined)
      return all(push, 'the git host does not say which branch is the default one');
    // A renamed repository has the exceptions of both names, so that neither evades one.
    const policies = [grant.repository, refs.repository ?? grant.repository].map(policyOf);
    for (const policy of policies) {
      const reasons = pushRefusals(push.commands, { policy, defaultBranch });
      if (reasons.size > 0) return reasons;
      incoming.limitTo(policy.maxMebibytes * mebibyte);
    }
    const unproven = await unprovenUpdates(push, body, proofLimits);
    if (unproven.length > 0) return new Map(unproven.map((ref) => [ref, notFastForward]));
    const maxPerHour = Math.min(...policies.map((policy) => policy.maxPerHour));
    return (await this.#options.records.take(conversation, maxPerHour))
      ? new Map()
      : all(push, `a conversation may push ${maxPerHour} times in an hour; try again later`);
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
    let isDenied = false;
    const outcomeOf = (ref: string): PushRecord['outcome'] => {
      if (report.accepted.has(ref)) return 'Accepted';
      return isDenied || report.rejected.has(ref) ? 'Rejected' : 'Unknown';
    };
    try {
      const answer = await host.pack(wanted, Readable.from(body, { objectMode: false }));
      // The host may have the pack nevertheless, where more bytes follow its end.
      if (incoming.isTooLarge) return false;
      isDenied = answer.kind === 'denied' || answer.kind === 'locked';
      await relay.answer(response, answer, transfer, {
        onBytes: (chunk) => report.push(chunk),
        // Git shows no text of an HTTP error here, but it shows a report.
        refuse: async (status, text) => {
          if (!transfer.signal.aborted) await incoming.discard();
          respond(response, push, all(push, text), status);
        },
      });
      return true;
    } finally {
      if (begun !== undefined) {
        await records.end(begun, { outcomeOf, bytes: incoming.bytes });
        const outcomes = new Set(commands.map(({ ref }) => outcomeOf(ref)));
        const known = outcomes.has('Rejected') ? 'rejected' : 'unknown';
        metrics.gitPushes.inc({ result: outcomes.has('Accepted') ? 'accepted' : known });
      }
    }
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
