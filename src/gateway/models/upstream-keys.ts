import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { Release, Shares } from '@conversation-operator/base/shares';
import type { KeyLimits } from '../../models/key-limits.ts';
import type { RateLimit } from '../../models/rate-limit.ts';
import type { MeasuredRuntime } from '../../observability/metrics.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { newPool, sizeOf } from '../limits/pools.ts';
import type { CallOutcome } from './call-accounts.ts';
import { CallRefused } from './call-refused.ts';
import type { ModelWaits } from './model-waits.ts';
import { UpstreamKey, type Attempt, type KeyedCall, type WaitedTooLong } from './upstream-key.ts';

export interface UpstreamKeysOptions extends Pick<MeasuredRuntime, 'logger' | 'metrics'> {
  readonly limits: readonly KeyLimits[];
  readonly waits: Pick<ModelWaits, 'tell'>;
  readonly clock: Clock;
  readonly random: () => number;
  /** Maximum time that one call waits in all; two minutes by default. */
  readonly maxWaitMs?: number;
}

export interface UpstreamRequest {
  readonly conversation: CachedConversation;
  /** Name of the credential; undefined: the calls have no key, and one host has one queue. */
  readonly credential: string | undefined;
  /** The key itself: an owner may have another one than all others under the same name. */
  readonly key: string | undefined;
  readonly host: string;
  readonly model: string;
  readonly bodyBytes: number;
  /** Maximum output tokens that the request names. */
  readonly maxOutputTokens: number | undefined;
  readonly signal: AbortSignal;
}

const defaultMaxWaitMs = 120_000;
/**
 * An estimate of the tokens of a call, which those in its answer replace. Its bounds keep images,
 * and agents that ask for the maximum of the model, from counting many times what they use.
 */
const estimateOf = ({ bodyBytes, maxOutputTokens = Infinity }: UpstreamRequest): number =>
  Math.min(Math.ceil(bodyBytes / 4), 65_536) + Math.min(maxOutputTokens, 4_096);

const minWaitingBytes = Math.ceil(sizeOf('modelWaits').total / (sizeOf('modelCalls').total / 2));
/** Maximum models with a rest in memory. A forgotten one begins without a rest. */
const maxModels = 1_000;

interface Keys extends Pick<Map<string, UpstreamKey>, 'get' | 'delete'> {
  entries(): Iterable<readonly [string, UpstreamKey]>;
  set(id: string, key: UpstreamKey): unknown;
}

/**
 * The keys in use at providers. Providers limit the rate of each model on its own, so that each one
 * rests on its own: an owner who asks for a model without room holds up no calls of other models.
 * The limits of a key are for all of its models. A key is forgotten two minutes after its last
 * call.
 */
export class UpstreamKeys {
  readonly #options: UpstreamKeysOptions;
  /** Keys for which `models.limits` has an entry, each with the use of all its models. */
  readonly #limited = new Map<string, UpstreamKey>();
  readonly #models = recentlyUsed<UpstreamKey>(maxModels);
  readonly #waiting: Shares;

  constructor(options: UpstreamKeysOptions) {
    this.#options = options;
    this.#waiting = newPool('modelWaits', options.clock);
  }

  /** Number of keys, and of models of keys, in memory. */
  get size(): number {
    return this.#limited.size + this.#models.size;
  }

  /** A call that has not begun yet. */
  call(request: UpstreamRequest): UpstreamCall {
    const { conversation, signal, credential, key, host, model } = request;
    const { waits, maxWaitMs = defaultMaxWaitMs, clock, limits } = this.#options;
    const own = limits.find((limit) => limit.credential === credential);
    const id = [host, credential, key];
    return new UpstreamCall({
      model: this.#keyIn(this.#models, [...id, model], request),
      key: own && this.#keyIn(this.#limited, id, request, own),
      call: {
        owner: conversation.spec.owner,
        tokens: estimateOf(request),
        arrivedMs: clock.monotonic(),
        signal,
        room: () => this.#room(request),
        onWait: (expected) => waits.tell(conversation, expected),
      },
      maxWaitMs,
      clock,
    });
  }

  #room({ conversation: { spec }, bodyBytes }: UpstreamRequest): Release | undefined {
    const units = Math.max(bodyBytes, minWaitingBytes);
    return this.#waiting.hasRoom(spec, units) ? this.#waiting.take(spec, units) : undefined;
  }

  #keyIn(
    keys: Keys,
    parts: readonly unknown[],
    { credential, host }: UpstreamRequest,
    limits?: KeyLimits,
  ): UpstreamKey {
    const id = JSON.stringify(parts);
    const known = keys.get(id);
    if (known !== undefined) return known;
    for (const [other, { isUnused }] of [...keys.entries()]) if (isUnused) keys.delete(other);
    const { clock, random, logger, metrics } = this.#options;
    const made = new UpstreamKey({
      limits,
      clock,
      random,
      onRest: (ms) =>
        logger.info('A provider of models limits the rate of a key', {
          provider: host,
          credential,
          restSeconds: Math.ceil(ms / 1000),
        }),
      onWaited: (reason, ms) => metrics.modelWaitSeconds.observe({ reason }, ms / 1000),
    });
    keys.set(id, made);
    return made;
  }
}

interface UpstreamCallOptions {
  /** Knows the rests of the model. */
  readonly model: UpstreamKey;
  /** Knows the limits of the key; undefined: it has none. */
  readonly key: UpstreamKey | undefined;
  readonly call: KeyedCall;
  readonly maxWaitMs: number;
  readonly clock: Pick<Clock, 'monotonic'>;
}

/** One call of an agent with all of its attempts, of which at most one is under way. */
export class UpstreamCall {
  readonly #options: UpstreamCallOptions;
  #leftMs: number;
  #ofModel: Attempt | undefined;
  #ofKey: Attempt | undefined;

  constructor(options: UpstreamCallOptions) {
    this.#options = options;
    this.#leftMs = options.maxWaitMs;
  }

  /** Resolves when the call may be made. Throws `CallRefused` after too long a wait. */
  async begin(): Promise<void> {
    const { model, call } = this.#options;
    const late = await this.#begun((maxWaitMs) => model.begin(call, maxWaitMs));
    if (late === undefined) return;
    const reasons = {
      RateLimit: 'The provider of the model limits the rate of calls at the moment.',
      Share: 'The limits of the key of the model are used up by other calls at the moment.',
    };
    throw new CallRefused('busy', `${reasons[late.reason]} Try again.`, {
      retryAfterSeconds: Math.ceil(late.retryAfterMs / 1000),
    });
  }

  /**
   * The provider has refused the attempt, which is over. Resolves when the call may be made again,
   * or with the number of seconds after which the agent may try again.
   */
  async refused({ restMs }: RateLimit): Promise<number | undefined> {
    const attempt = this.#ofModel;
    if (attempt === undefined) throw new Error('no attempt of this call is under way');
    this.#ofKey?.end();
    const late = await this.#begun((maxWaitMs) => attempt.refuse(restMs, maxWaitMs));
    return late && Math.ceil(late.retryAfterMs / 1000);
  }

  accepted(): void {
    this.#ofModel?.accept();
  }

  /**
   * Counts what the attempt has used: the estimate, where the answer broke off. Only the first call
   * for an attempt has an effect.
   */
  settle(outcome: CallOutcome): void {
    this.#ofKey?.use(this.#tokensOf(outcome));
  }

  #tokensOf(outcome: CallOutcome): number {
    switch (outcome.kind) {
      case 'not-made':
      case 'failed':
        return 0;
      case 'broken':
        return this.#options.call.tokens;
      case 'answered':
        return outcome.usage.inputTokens + outcome.usage.outputTokens;
    }
  }

  end(): void {
    this.#ofKey?.end();
    this.#ofModel?.end();
  }

  /** A call that waits for a rest takes nothing of the limits, which other models may use. */
  async #begun(
    begin: (maxWaitMs: number) => Promise<Attempt | WaitedTooLong>,
  ): Promise<WaitedTooLong | undefined> {
    const { key, call } = this.#options;
    const ofModel = await this.#waited(begin);
    if ('reason' in ofModel) return ofModel;
    this.#ofModel = ofModel;
    if (key === undefined) return undefined;
    const ofKey = await this.#waited((maxWaitMs) => key.begin(call, maxWaitMs));
    if ('reason' in ofKey) return ofKey;
    this.#ofKey = ofKey;
    return undefined;
  }

  async #waited(
    begin: (maxWaitMs: number) => Promise<Attempt | WaitedTooLong>,
  ): Promise<Attempt | WaitedTooLong> {
    const { clock } = this.#options;
    const sinceMs = clock.monotonic();
    const begun = await begin(this.#leftMs);
    this.#leftMs = Math.max(0, this.#leftMs - (clock.monotonic() - sinceMs));
    return begun;
  }
}
