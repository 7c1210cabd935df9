import { readSmartRequest } from '@conversation-operator/git/smart-http';
import { sleep } from '@conversation-operator/base/clock';
import type { Shares } from '@conversation-operator/base/shares';
import type { CloneGrant, SandboxKeys } from '../../agent/keys.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import {
  noSuchEndpoint,
  type CallbackHandler,
  type CallbackRequest,
} from '../callback-server/callback-server.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { newPool } from '../limits/pools.ts';
import { inNamespace, type Cache } from '../lookup/cache.ts';
import { CloneRelay, type CloneRelayOptions, type RelayLimits } from './clone-relay.ts';

export interface CloneLimits extends RelayLimits {
  /** Maximum delay of the cache behind the operator's write of the status. */
  readonly lagMs: number;
}

export interface CloneHandlerOptions extends Omit<CloneRelayOptions, 'limits'> {
  readonly keys: Pick<SandboxKeys, 'acceptsCloneTicket'>;
  /** A cache that has the index `sandboxName` of `gatewayIndexers`. */
  readonly conversations: Cache<CachedConversation>;
  /** The provider of conversations that name none. */
  readonly defaultProvider: string | undefined;
  /** Limits that replace the defaults. */
  readonly limits?: Partial<CloneLimits>;
}

const defaults: CloneLimits = {
  idleMs: 120_000,
  totalMs: 3_600_000,
  lagMs: 5_000,
  maxBodyBytes: 16 * 1024 * 1024,
};

/** Delay before the cache is read again for the status of a start. */
const cachePollMs = 50;

/**
 * Serves private repositories to sandboxes for reading; the credential of the host stays in the
 * gateway. A ticket opens one repository to one sandbox, and only while the operator prepares it
 * there. Status 404 means that the sandbox can clone from the host itself.
 */
export class CloneHandler implements CallbackHandler {
  readonly name = 'git';
  readonly #options: CloneHandlerOptions;
  readonly #lagMs: number;
  readonly #shares: Shares;
  readonly #relay: CloneRelay;

  constructor(options: CloneHandlerOptions) {
    const limits = { ...defaults, ...options.limits };
    this.#options = options;
    this.#lagMs = limits.lagMs;
    this.#relay = new CloneRelay({ ...options, limits });
    this.#shares = newPool('clones', options.clock);
  }

  async handle(call: CallbackRequest): Promise<void> {
    const [provider = '', ...path] = call.path;
    const asked = readSmartRequest(call.request.method, path, call.query);
    if (asked === undefined) throw noSuchEndpoint();
    const { repository, service, part } = asked;
    const grant = { provider, repository };
    const sandbox = this.#holder(call, grant);
    if (sandbox === undefined) throw refusedTicket();
    if (service !== 'git-upload-pack')
      throw new ProblemError('clone-ticket-refused', 'The ticket is for reading.');
    const release = await this.#shares.wait(
      { owner: sandbox.spec.owner, sandbox: sandbox.metadata.uid },
      { signal: call.signal },
    );
    try {
      if (!(await this.#isPreparing(sandbox, grant, call.signal))) throw refusedTicket();
      await this.#relay.relay(call, sandbox, grant, part);
    } finally {
      release();
    }
  }

  /**
   * The sandbox, if the ticket is its own. The check of an unknown sandbox takes as long as that of
   * a known one.
   */
  #holder({ request, sandbox }: CallbackRequest, grant: CloneGrant): Sandbox | undefined {
    const { keys, clock } = this.#options;
    const ticket = /^Bearer (\S{1,256})$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
    const isGood = keys.acceptsCloneTicket(
      sandbox?.metadata.uid ?? 'none',
      grant,
      ticket,
      clock.now(),
    );
    return isGood && sandbox?.metadata.deletionTimestamp === undefined ? sandbox : undefined;
  }

  /**
   * Whether the operator still prepares the repository. The ticket ends with this step, long before
   * it expires.
   */
  async #isPreparing(
    { metadata, spec }: Sandbox,
    { provider, repository }: CloneGrant,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { conversations, clock, defaultProvider } = this.#options;
    const isIt = (conversation: CachedConversation): boolean =>
      conversation.spec.owner === spec.owner &&
      conversation.status?.sandboxUID === metadata.uid &&
      conversation.status.start?.status === 'PREPARING_REPOSITORY' &&
      conversation.spec.repository?.name === repository &&
      (conversation.spec.repository.provider ?? defaultProvider) === provider;
    const sandboxName = inNamespace(metadata.namespace, metadata.name);
    const lateMs = clock.monotonic() + this.#lagMs;
    for (;;) {
      if (conversations.store.byIndex('sandboxName', sandboxName).some(isIt)) return true;
      if (clock.monotonic() >= lateMs) return false;
      await sleep(clock, cachePollMs, signal);
    }
  }
}

const refusedTicket = (): ProblemError =>
  new ProblemError('clone-ticket-refused', 'The ticket is not good for this, or not any more.');
