import { readSmartRequest, type SmartRequest } from '@conversation-operator/git/smart-http';
import { sleep } from '@conversation-operator/base/clock';
import type { Shares } from '@conversation-operator/base/shares';
import type { RepositoryAddress, SandboxKeys } from '../../agent/keys.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { gitPolicyOf } from '../../resources/git-settings.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { keySeedOf, type Sandbox } from '../../resources/sandbox.ts';
import type { MeasuredRuntime } from '../../observability/metrics.ts';
import {
  noSuchEndpoint,
  type CallbackHandler,
  type CallbackRequest,
} from '../callback-server/callback-server.ts';
import { workingConversations } from '../callback-server/working-conversations.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { HostBudget } from '../limits/host-budget.ts';
import { newPool } from '../limits/pools.ts';
import type { Cache } from '../lookup/cache.ts';
import { GitRelay, refuseWithText, type RelayedRequest, type RelayLimits } from './git-relay.ts';
import type { PrivateHost } from './private-host.ts';
import { PushRelay, type PushAccess } from './push-relay.ts';
import type { PushRecords } from './push-records.ts';

export interface GitLimits extends RelayLimits {
  /** Maximum delay until the cache shows a status that the operator has written. */
  readonly lagMs: number;
}

export interface GitHandlerOptions extends Pick<MeasuredRuntime, 'clock' | 'logger' | 'metrics'> {
  readonly host: Pick<PrivateHost, 'advertisement' | 'pack' | 'branches'>;
  readonly keys: Pick<SandboxKeys, 'acceptsCloneTicket' | 'acceptsGitToken'>;
  /** This cache must have the index `sandboxName` of `gatewayIndexers`. */
  readonly conversations: Cache<CachedConversation>;
  readonly templates: Cache<SandboxTemplate>;
  readonly records: Pick<PushRecords, 'begin' | 'end' | 'take' | 'refuse'>;
  readonly defaultProvider: string | undefined;
  readonly limits?: Partial<GitLimits>;
}

const defaults: GitLimits = {
  idleMs: 120_000,
  totalMs: 3_600_000,
  lagMs: 5_000,
  maxBodyBytes: 16 * 1024 * 1024,
};

/** Git requests per hour. A fetch takes about four; owners may start thousands of conversations. */
export const gitBudget = { perOwner: 12_000, perSandbox: 1_200 } as const;

/** Delay between two reads of a cache that may lag behind the writes of the operator. */
const cachePollMs = 50;

/**
 * - ticket: lets the operator clone one repository into the sandbox when a conversation starts.
 * - token: opens the repositories of the conversations in the sandbox while these conversations
 *   exist.
 */
interface Credential {
  readonly kind: 'ticket' | 'token';
  readonly text: string;
}

/** A git request. `sandbox` is undefined if the credential is not valid for an existing sandbox. */
interface GitRequest {
  readonly call: CallbackRequest;
  readonly sandbox: Sandbox | undefined;
  readonly address: RepositoryAddress;
  readonly asked: SmartRequest;
}

/** The ticket of a Bearer header, or the token that git sends as the password of a Basic header. */
function credentialOf(authorization: string | undefined): Credential | undefined {
  const ticket = /^Bearer(?: (\S{1,256}))?$/.exec(authorization ?? '');
  if (ticket !== null) return { kind: 'ticket', text: ticket[1] ?? '' };
  const basic = /^Basic ([A-Za-z0-9+/=]{1,1024})$/.exec(authorization ?? '')?.[1];
  if (basic === undefined) return undefined;
  const decoded = Buffer.from(basic, 'base64').toString('utf8');
  return { kind: 'token', text: decoded.slice(decoded.indexOf(':') + 1) };
}

/**
 * Serves the repositories of git hosts to sandboxes; the credential of the host stays in the
 * gateway. Status 404 means that the sandbox can read the repository from the host itself.
 */
export class GitHandler implements CallbackHandler {
  readonly name = 'git';
  /** This handler limits the time of a body itself: a push may take an hour while bytes flow. */
  readonly limitsBody = true;
  readonly #options: GitHandlerOptions;
  readonly #lagMs: number;
  readonly #budget: HostBudget;
  readonly #reads: Shares;
  readonly #pushes: Shares;
  readonly #relay: GitRelay;
  readonly #pushRelay: PushRelay;

  constructor(options: GitHandlerOptions) {
    const limits = { ...defaults, ...options.limits };
    this.#options = options;
    this.#lagMs = limits.lagMs;
    this.#relay = new GitRelay({
      host: options.host,
      clock: options.clock,
      logger: options.logger,
      metrics: options.metrics,
      limits,
    });
    this.#pushRelay = new PushRelay({
      host: options.host,
      records: options.records,
      clock: options.clock,
      metrics: options.metrics,
      relay: this.#relay,
    });
    this.#budget = new HostBudget(options.clock, gitBudget);
    this.#reads = newPool('clones', options.clock);
    this.#pushes = newPool('pushes', options.clock);
  }

  async handle(call: CallbackRequest): Promise<void> {
    const [provider = '', ...path] = call.path;
    const asked = readSmartRequest(call.request.method, path, call.query);
    if (asked === undefined) {
      if (!isLargeFiles(path)) throw noSuchEndpoint();
      refuseWithText(call.response, 501, 'The gateway does not serve Git LFS');
      return;
    }
    const address = { provider, repository: asked.repository };
    const credential = credentialOf(call.request.headers.authorization);
    if (credential === undefined) {
      refuseWithText(call.response, 401, 'The sandbox has a token for this', askForPassword);
      return;
    }
    const sandbox = this.#holder(call, address, credential);
    if (sandbox !== undefined) call.countFor(sandbox);
    const wanted = { call, sandbox, address, asked };
    await (credential.kind === 'ticket' ? this.#prepare(wanted) : this.#work(wanted));
  }

  /** Relays the clone that the operator makes when a conversation starts. */
  async #prepare({ sandbox, ...wanted }: GitRequest): Promise<void> {
    const { call, address, asked } = wanted;
    if (sandbox === undefined) throw refusedTicket();
    if (asked.service !== 'git-upload-pack')
      throw new ProblemError('clone-ticket-refused', 'The ticket is for reading.');
    const relayed = { ...wanted, sandbox, relaysOpen: false };
    await this.#inTurn(relayed, async () => {
      if (!(await this.#isPreparing(sandbox, address, call.signal))) throw refusedTicket();
      await this.#relay.relay(relayed);
    });
  }

  async #work({ sandbox, ...wanted }: GitRequest): Promise<void> {
    const { call, address, asked } = wanted;
    const { service, part } = asked;
    const found = sandbox && workingConversations(this.#options.conversations, sandbox);
    // The token does not show which conversation of the sandbox pushes, so the first one counts.
    const conversation = found?.find((each) => this.#isAbout(each, address));
    const { templates } = this.#options;
    const template =
      sandbox && templates.store.get(sandbox.metadata.namespace, sandbox.spec.templateName);
    const settings = template?.spec.git;
    const isReadable =
      service === 'git-upload-pack' &&
      settings?.readable?.includes(address.repository) === true &&
      found?.some((each) => this.#providerOf(each) === address.provider) === true;
    const isPush = service === 'git-receive-pack';
    if (sandbox === undefined || (!isPush && conversation === undefined && !isReadable)) {
      refuseWithText(call.response, 403, notOwn);
      return;
    }
    const relayed = { ...wanted, sandbox, relaysOpen: true };
    const access = this.#pushAccess(relayed, conversation, template);
    await this.#inTurn(relayed, async () => {
      if (isPush && part === 'service') await this.#pushRelay.push(relayed, access);
      else if (isPush && access.closed !== undefined)
        this.#pushRelay.refuse(relayed, { ...access, reasons: access.closed, status: 403 });
      else await this.#relay.relay(relayed);
    });
  }

  #pushAccess(
    { sandbox, address }: RelayedRequest,
    conversation: CachedConversation | undefined,
    template: SandboxTemplate | undefined,
  ): PushAccess {
    const { owner } = sandbox.spec;
    const policyOf = (repository: string) =>
      gitPolicyOf(template?.spec.git, { owner, repository }).push;
    if (conversation === undefined) return { conversation, closed: notOwn };
    // Without the template, there is no policy that allows a push.
    return template === undefined || !policyOf(address.repository).enabled
      ? { conversation, closed: 'Pushes are not allowed here' }
      : { conversation, policyOf };
  }

  async #inTurn(
    { call, sandbox: { metadata, spec }, asked: { service, part } }: RelayedRequest,
    work: () => Promise<void>,
  ): Promise<void> {
    const holder = { owner: spec.owner, sandbox: metadata.uid };
    try {
      this.#budget.take(holder);
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error;
      refuseWithText(call.response, error.status, error.message, error.headers);
      return;
    }
    const isPush = service === 'git-receive-pack' && part === 'service';
    const release = await (isPush ? this.#pushes : this.#reads).wait(holder, {
      signal: call.signal,
    });
    try {
      await work();
    } finally {
      release();
    }
  }

  /** The sandbox if the credential is valid. The check takes equally long without a sandbox. */
  #holder(
    { sandbox }: CallbackRequest,
    address: RepositoryAddress,
    { kind, text }: Credential,
  ): Sandbox | undefined {
    const { keys, clock } = this.#options;
    const seed = sandbox === undefined ? 'none' : keySeedOf(sandbox);
    const isGood =
      kind === 'ticket'
        ? keys.acceptsCloneTicket(seed, address, text, clock.now())
        : keys.acceptsGitToken(seed, text);
    return isGood && sandbox?.metadata.deletionTimestamp === undefined ? sandbox : undefined;
  }

  /** Whether the operator still clones the repository; the ticket is invalid after the clone. */
  async #isPreparing(
    sandbox: Sandbox,
    address: RepositoryAddress,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { clock } = this.#options;
    const lateMs = clock.monotonic() + this.#lagMs;
    for (;;) {
      const found = workingConversations(this.#options.conversations, sandbox).some(
        (conversation) =>
          conversation.status?.start?.status === 'PREPARING_REPOSITORY' &&
          this.#isAbout(conversation, address),
      );
      if (found) return true;
      if (clock.monotonic() >= lateMs) return false;
      await sleep(clock, cachePollMs, signal);
    }
  }

  #isAbout(conversation: CachedConversation, { provider, repository }: RepositoryAddress): boolean {
    return (
      conversation.spec.repository?.name === repository &&
      this.#providerOf(conversation) === provider
    );
  }

  #providerOf({ spec: { repository } }: CachedConversation): string | undefined {
    return repository && (repository.provider ?? this.#options.defaultProvider);
  }
}

const notOwn = 'No conversation in this sandbox has this repository';

const askForPassword = { 'www-authenticate': 'Basic realm="conversation-operator"' } as const;

/** Whether a path belongs to Git LFS, whose responses contain the credential of the host. */
const isLargeFiles = (path: readonly string[]): boolean =>
  path.some((segment, index) => segment === 'info' && path[index + 1] === 'lfs');

const refusedTicket = (): ProblemError =>
  new ProblemError('clone-ticket-refused', 'The ticket is not good for this, or not any more.');
