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
import type { MeasuredRuntime } from '../../observability/metrics.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { PushPolicy, PushRecord } from '../../resources/git-settings.ts';
import { ProblemError } from '../errors/problem-error.ts';
import type { Transfer } from '../callback-server/transfer.ts';
import { refuseWithText, type GitRelay, type RelayedRequest } from './git-relay.ts';
import type { PrivateHost, Wanted } from './private-host.ts';
import { notFastForward, optionsRefusal, pushRefusals } from './push-policy.ts';
import type { PushRecords } from './push-records.ts';

export interface PushRelayOptions extends Pick<MeasuredRuntime, 'clock' | 'metrics'> {
  readonly host: Pick<PrivateHost, 'pack' | 'branches'>;
  readonly relay: Pick<GitRelay, 'within' | 'answer'>;
  readonly records: Pick<PushRecords, 'begin' | 'end' | 'take' | 'refuse'>;
}

const mebibyte = 1_048_576;
/** Limits of `unprovenUpdates`: hostile packs cost memory and time. Usual packs are far smaller. */
const proofLimits = { maxPackBytes: 4 * mebibyte, maxCommits: 20_000 } as const;

/** Maximum bytes that are read of a push that is malformed or not allowed at all. */
const maxDiscardedBytes = 16 * mebibyte;

/** Whether a sandbox may push: never, for the reason in `closed`, or if a policy allows it. */
export type PushAccess =
  | { readonly conversation: CachedConversation | undefined; readonly closed: string }
  | {
      readonly conversation: CachedConversation;
      readonly closed?: undefined;
      readonly policyOf: (repository: string) => PushPolicy;
    };

/** Why a whole push is rejected, or the reasons by name of the reference. */
type Reasons = string | ReadonlyMap<string, string>;

/** The response to a push that the gateway rejects. */
interface Answer {
  /** Absent if the beginning of the push was not read. */
  readonly push?: Push | undefined;
  readonly reasons: Reasons;
  /** HTTP status for a client that does not ask for a report. */
  readonly status: number;
}

/** A push whose commands were read, and whose pack is arriving. */
interface ArrivingPush {
  readonly push: Push;
  readonly body: PushBody;
  readonly incoming: IncomingPush;
  readonly transfer: Transfer;
  readonly wanted: Wanted;
}

/** The conversation that pushes, and the target of its push. */
interface Destination {
  readonly conversation: CachedConversation;
  /** The URL at which the branches were read; absent for a push without commands. */
  readonly at?: URL;
}

/**
 * Relays pushes of sandboxes to git hosts. The gateway reads the commands of a push before the host
 * gets anything of it. If the policy does not allow a command, the gateway rejects the whole push,
 * with a message that git shows. The pack itself is streamed.
 */
export class PushRelay {
  readonly #options: PushRelayOptions;

  constructor(options: PushRelayOptions) {
    this.#options = options;
  }

  /** The caller must have authorized the request. */
  async push(relayed: RelayedRequest, access: PushAccess): Promise<void> {
    const { request, response } = relayed.call;
    const { conversation } = access;
    // Git never compresses the body of a push, and the gateway can't read a compressed body.
    if (request.headers['content-encoding'] !== undefined) {
      const reasons = 'The body of a push must not be encoded';
      this.refuse(relayed, { conversation, reasons, status: 415 });
      return;
    }
    await this.#options.relay.within(relayed, async (transfer, wanted) => {
      const isClosed = access.closed !== undefined;
      const maxBytes = isClosed
        ? maxDiscardedBytes
        : access.policyOf(relayed.address.repository).maxMebibytes * mebibyte;
      const incoming = new IncomingPush(request, transfer, maxBytes);
      const pieces = incoming.read();
      let push: Push | undefined;
      try {
        const body = new PushBody(pieces);
        push = await readPush(body);
        const begun = { push, body, incoming, transfer, wanted };
        const destination = await this.#allowed(relayed, access, begun);
        if (await this.#pass(relayed, destination, begun)) return;
        await pieces.return(undefined);
        await incoming.discard();
        respond(response, { push, reasons: incoming.tooLarge, status: 403 });
      } catch (error) {
        const { reasons, status } = refusalIn(error);
        await pieces.return(undefined);
        await incoming.discard(push === undefined || isClosed ? maxDiscardedBytes : undefined);
        this.refuse(relayed, { conversation, push, reasons, status });
      }
    });
  }

  /** Responds to a push that the gateway rejects, and records it. */
  refuse(
    { call, sandbox, address }: RelayedRequest,
    { conversation, ...refused }: Answer & Pick<PushAccess, 'conversation'>,
  ): void {
    const { metrics, records } = this.#options;
    const { push, reasons } = refused;
    metrics.gitPushes.inc({ result: 'refused' });
    records.refuse({
      from: { ...call.origin, sandbox },
      conversation,
      address,
      push,
      reasons: textsOf(reasons),
    });
    respond(call.response, refused);
  }

  /** Makes all checks that precede the request to the host. Throws `Refusal`. */
  async #allowed(
    { address }: RelayedRequest,
    access: PushAccess,
    { push, body, incoming, wanted: { owner, signal } }: ArrivingPush,
  ): Promise<Destination> {
    const refusal = refusalOfWhole(push, access.closed);
    if (access.closed !== undefined || refusal !== '') throw new Refusal(refusal);
    const { conversation, policyOf } = access;
    if (push.commands.length === 0) return { conversation };
    const refs = await this.#options.host.branches({ owner, ...address, signal });
    if (refs === undefined)
      throw new Refusal('the git host does not say which branch is the default one; try again');
    const isEmpty = refs.branches.length === 0;
    const defaultBranch = isEmpty ? undefined : refs.defaultBranch;
    if (!isEmpty && defaultBranch === undefined)
      throw new Refusal('the git host does not say which branch is the default one');
    // The policies of both names of a renamed repository apply, so that a push can not avoid the
    // override for one name with the other name.
    const policies = [address.repository, refs.repository].map(policyOf);
    for (const policy of policies) {
      const reasons = pushRefusals(push.commands, { policy, defaultBranch });
      if (reasons.size > 0) throw new Refusal(reasons);
      incoming.limitTo(policy.maxMebibytes * mebibyte);
    }
    const unproven = await unprovenUpdates(push, body, proofLimits);
    if (unproven.length > 0)
      throw new Refusal(new Map(unproven.map((ref) => [ref, notFastForward])));
    const maxPerHour = Math.min(...policies.map((policy) => policy.maxPerHour));
    if (!(await this.#options.records.take(conversation, maxPerHour)))
      throw new Refusal(`a conversation may push ${maxPerHour} times in an hour; try again later`);
    return { conversation, at: refs.location };
  }

  /** Sends the push to the host. Returns false, without a response, if the push is too large. */
  async #pass(
    { call: { origin, response }, sandbox, address }: RelayedRequest,
    { conversation, at }: Destination,
    { push, body, incoming, transfer, wanted }: ArrivingPush,
  ): Promise<boolean> {
    const { host, relay, records, metrics } = this.#options;
    const { commands } = push;
    const begun =
      commands.length === 0
        ? undefined
        : await records.begin({ from: { ...origin, sandbox }, conversation, address, commands });
    const report = new ReportReader(push);
    let isDenied = false;
    const outcomeOf = (ref: string): PushRecord['outcome'] => {
      if (report.accepted.has(ref)) return 'Accepted';
      return isDenied || report.rejected.has(ref) ? 'Rejected' : 'Unknown';
    };
    try {
      const source = Readable.from(body, { objectMode: false });
      const answer = await host.pack(wanted, source, at).catch((error: unknown) => {
        if (!incoming.isTooLarge) throw error;
        return undefined;
      });
      // If the excess bytes follow the end of the pack, the host may still have responded.
      if (answer === undefined || incoming.isTooLarge) return false;
      isDenied = answer.kind === 'denied' || answer.kind === 'locked';
      await relay.answer(response, answer, transfer, {
        onBytes: (chunk) => report.push(chunk),
        // Git does not show the text of an HTTP error at this point, but shows a report.
        refuse: async (status, text) => {
          if (!transfer.signal.aborted) await incoming.discard();
          respond(response, { push, reasons: text, status });
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

/** The reasons to reject a push regardless of its references; empty if there are none. */
function refusalOfWhole(push: Push, closed: string | undefined): string {
  const isReported = push.commands.length === 0 || asksForReport(push);
  return [
    ...(closed === undefined ? [] : [closed]),
    ...(push.options === undefined ? [] : [optionsRefusal(push.options)]),
    ...(isReported ? [] : ['a push must ask for a report (report-status)']),
  ].join('; ');
}

/** Thrown to reject a push before the host gets anything of it. */
class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly reasons: Reasons;
  readonly status: number;

  constructor(reasons: Reasons, status = 403) {
    super(textsOf(reasons).join('; '));
    this.reasons = reasons;
    this.status = status;
  }
}

/** Returns the `Refusal` for an error that the push has caused. Rethrows other errors. */
function refusalIn(error: unknown): Refusal {
  if (error instanceof PushError) return new Refusal(error.message, 400);
  if (error instanceof ProblemError && error.code === 'body-too-large')
    return new Refusal(error.message, error.status);
  if (error instanceof Refusal) return error;
  throw error;
}

const textsOf = (reasons: Reasons): readonly string[] =>
  typeof reasons === 'string' ? [reasons] : [...new Set(reasons.values())];

/** The body of a push as it arrives. If the reader stops early, the request stays open. */
class IncomingPush {
  readonly #request: IncomingMessage;
  readonly #transfer: Pick<Transfer, 'arriving'>;
  #maxBytes: number;
  #bytes = 0;

  /** A time limit of the transfer aborts the request, at any stage of the push. */
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

  /** Lowers the maximum size. A larger value changes nothing. */
  limitTo(maxBytes: number): void {
    this.#maxBytes = Math.min(this.#maxBytes, maxBytes);
  }

  get isTooLarge(): boolean {
    return this.#bytes > this.#maxBytes;
  }

  get tooLarge(): string {
    return `a push may have ${this.#maxBytes / mebibyte} MiB`;
  }

  /** Throws `body-too-large` as soon as `isTooLarge` is true. */
  async *read(): AsyncGenerator<Buffer> {
    for await (const piece of this.#pieces()) {
      if (this.isTooLarge) throw new ProblemError('body-too-large', this.tooLarge);
      yield piece;
    }
  }

  /** Discards the rest, up to `maxBytes`: git reads a response only after sending everything. */
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

/** Responds with a report about the references, or with the status if git asked for no report. */
function respond(response: ServerResponse, { push, reasons, status }: Answer): void {
  const byRef =
    typeof reasons === 'string'
      ? new Map(push?.commands.map(({ ref }) => [ref, reasons]))
      : reasons;
  const body = push && refusalOf(push, byRef);
  if (body === undefined) {
    refuseWithText(response, status, textsOf(reasons).join('; '));
    return;
  }
  response.writeHead(200, {
    'content-type': smartType('git-receive-pack', 'result'),
    'cache-control': 'no-store',
  });
  response.end(body);
}
