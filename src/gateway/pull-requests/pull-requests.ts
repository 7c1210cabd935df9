import { LRUCache } from 'lru-cache';
import { isoTime } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { Shares } from '@conversation-operator/base/shares';
import { heads } from '@conversation-operator/git/ref-list';
import type { EventRecorder } from '@conversation-operator/kube/events';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { MeasuredRuntime } from '../../observability/runtime.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../resources/conversation.ts';
import { gitPolicyOf, type GitPolicy } from '../../resources/git-settings.ts';
import { plainText } from '../../resources/plain-text.ts';
import { maxPullRequests, type PullRequestRecord } from '../../resources/pull-request.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { notFound, ProblemError } from '../errors/problem-error.ts';
import type { GitCredential, GitCredentials } from '../git/hosts.ts';
import {
  HostApiError,
  type ApiTarget,
  type HostApi,
  type PullRequest,
  type PullRequestDetails,
} from '../git/host-api/host-api.ts';
import { isPushable, pushableBranches } from '../git/push-policy.ts';
import { HostBudget } from '../limits/host-budget.ts';
import { HourlyLimit } from '../limits/hourly-limit.ts';
import { newPool } from '../limits/pools.ts';
import type { Cache } from '../lookup/cache.ts';
import { writeOnStored } from '../lookup/stored.ts';
import { expiryBy } from '../lookup/expiry.ts';
import { problemOfHost } from './host-problems.ts';
import { withoutQuickActions } from './quick-actions.ts';

export interface PullRequestsOptions extends Pick<MeasuredRuntime, 'clock' | 'logger' | 'metrics'> {
  readonly client: KubeClient;
  readonly events: Pick<EventRecorder, 'record'>;
  /** Where lines of the audit go. */
  readonly audit: Logger;
  readonly credentials: GitCredentials;
  readonly templates: Cache<SandboxTemplate>;
  /** The API of a provider; undefined where the gateway can open no pull requests there. */
  readonly apiOf: (provider: string) => HostApi | undefined;
  /** The provider of conversations that name none. */
  readonly defaultProvider: string | undefined;
}

export interface PullRequestRequest {
  readonly title: string;
  readonly body?: string | undefined;
  /** Branch with the changes. Absent: the branch that the sandbox has pushed last. */
  readonly head?: string | undefined;
  /** Branch that is to get the changes. Absent: the default branch of the repository. */
  readonly base?: string | undefined;
  readonly draft?: boolean | undefined;
}

/** A request for one conversation. */
export interface PullRequestCall {
  readonly conversation: CachedConversation;
  /** Origin of the request, for the audit. */
  readonly by: 'client' | 'agent' | 'gateway';
  /** Absent: the call is carried through, because the host may have acted already. */
  readonly signal?: AbortSignal | undefined;
}

export interface OpenedPullRequest {
  readonly pullRequest: PullRequestRecord;
  /** False: the branch had an open pull request already. */
  readonly isNew: boolean;
}

interface HostAccess {
  readonly api: HostApi;
  readonly target: ApiTarget;
  readonly provider: string;
  readonly policy: GitPolicy;
  /** The policy for a repository of this name. */
  readonly policyOf: (repository: string) => GitPolicy;
  /** Reports that the host has refused the credential. */
  readonly refused: GitCredential['refused'];
}

/** A repository under its present name, as the host reports it. */
interface PresentRepository {
  readonly target: ApiTarget;
  readonly defaultBranch: string;
  readonly policy: GitPolicy;
}

const stateOf = { open: 'Open', closed: 'Closed', merged: 'Merged' } as const;
const maxTitleLength = 512;

/** Maximum time for all requests to a host that one call makes. */
const callMs = 30_000;

/** GitHub allows a token 5000 requests an hour, and this leaves some to its owner. */
export const hostApiBudget = { perOwner: 3_000, perSandbox: 600 } as const;

/** Lifetime of the details of a pull request in the cache: an agent may ask for them in a loop. */
export const detailsMs = 10_000;
/** Maximum characters of the details in the cache. */
const maxDetailsLength = 4 * 1024 * 1024;

/**
 * Opens pull requests on git hosts with the credential of the owner of a conversation, comments on
 * them, and keeps them in the status of the conversation. Nothing here merges, closes or approves
 * one. Methods throw `ProblemError`.
 */
export class PullRequests {
  readonly #options: PullRequestsOptions;
  readonly #places: Shares;
  /** Limits pull requests and comments. */
  readonly #writes: HourlyLimit;
  readonly #budget: HostBudget;
  /** By conversation and number. */
  readonly #details: LRUCache<string, PullRequestDetails>;

  constructor(options: PullRequestsOptions) {
    this.#options = options;
    this.#places = newPool('hostCalls', options.clock);
    this.#writes = new HourlyLimit(options);
    this.#budget = new HostBudget(options.clock, hostApiBudget);
    this.#details = new LRUCache({
      ...{ maxSize: maxDetailsLength, ttl: detailsMs },
      sizeCalculation: (details) => JSON.stringify(details).length,
      ...expiryBy(options.clock),
    });
  }

  /**
   * Opens a pull request. A branch has one open pull request at most: a repetition finds it, also
   * one whose answer was lost.
   */
  open(call: PullRequestCall, request: PullRequestRequest): Promise<OpenedPullRequest> {
    return this.#atHost(call, async (access) => {
      const { api, target, provider, policy } = access;
      const stored = await this.#stored(call.conversation);
      const head = request.head ?? lastPushed(stored);
      if (head === undefined) throw nothingPushed();
      checkHead(head, policy);
      const present = await this.#atPresentName(access);
      checkHead(head, present.policy);
      const base = request.base ?? present.defaultBranch;
      if (base === head) throw sameBranch(head);
      await this.#countWrite(call, policy);
      const { title, draft = false } = request;
      const body = withoutQuickActions(request.body ?? '');
      const wanted = { title, body, head, base, draft };
      const { opened, isNew } = await this.#audited('PullRequest', call, {
        fields: { provider, repository: present.target.repository, head, base, draft },
        act: () => openOnce(api, present.target, wanted),
        result: (done) => ({ number: done.opened.number, url: done.opened.url, isNew: done.isNew }),
      });
      this.#forgetDetails(call, opened.number);
      const pullRequest = recordOf(opened, { provider, ...target }, isoTime(this.#options.clock));
      await this.#record(call.conversation, pullRequest);
      if (isNew) this.#announce(call, pullRequest);
      return { pullRequest, isNew };
    });
  }

  /**
   * A pull request of the repository with its comments. Without a number: the last one of the
   * conversation.
   */
  details(call: PullRequestCall, number?: number): Promise<PullRequestDetails> {
    return this.#atHost(call, async ({ api, target, provider }) => {
      const known = numberOf(await this.#stored(call.conversation), number);
      const recent = this.#details.get(detailsKey(call, known));
      if (recent !== undefined) return recent;
      const details = await api.details(target, known);
      this.#details.set(detailsKey(call, known), details);
      await this.#update(call.conversation, provider, target, details);
      return details;
    });
  }

  /**
   * Comments on a pull request that the conversation has opened or is about. Without a number: on
   * the last one.
   */
  comment(
    call: PullRequestCall,
    { number, body }: { readonly number?: number | undefined; readonly body: string },
  ): Promise<{ readonly number: number; readonly url: string }> {
    return this.#atHost(call, async (access) => {
      const { api, provider, policy } = access;
      const stored = await this.#stored(call.conversation);
      const known = numberOf(stored, number);
      if (!numbersOf(stored).includes(known))
        throw refused(`The pull request ${known} is none of this conversation.`);
      await this.#countWrite(call, policy);
      const { target } = await this.#atPresentName(access);
      this.#forgetDetails(call, known);
      const { url } = await this.#audited('PullRequestComment', call, {
        fields: { provider, repository: target.repository, number: known },
        act: () => api.comment(target, known, withoutQuickActions(body)),
        result: (done) => done,
      });
      this.#forgetDetails(call, known);
      return { number: known, url };
    });
  }

  /**
   * Reads the state of a recorded pull request again, and stores a change. The sandbox has no part
   * in this, so its budget does not count.
   */
  refresh(call: PullRequestCall, { number }: Pick<PullRequestRecord, 'number'>): Promise<void> {
    return this.#atHost({ ...call, by: 'gateway' }, async ({ api, target, provider }) => {
      await this.#update(call.conversation, provider, target, await api.get(target, number));
    });
  }

  /** Calls a host within the share of the owner, and turns its errors into problems. */
  async #atHost<T>(call: PullRequestCall, work: (access: HostAccess) => Promise<T>): Promise<T> {
    const { owner } = call.conversation.spec;
    const release = await this.#places.wait({ owner }, call);
    let access: HostAccess | undefined;
    try {
      access = await this.#accessFor(call);
      return await work(access);
    } catch (error) {
      if (!(error instanceof HostApiError)) throw error;
      if (error.code === 'denied') access?.refused?.();
      throw problemOfHost(error);
    } finally {
      release();
    }
  }

  /** Throws where the conversation has no repository, or the owner may not do this with it. */
  async #accessFor({ conversation, by, signal }: PullRequestCall): Promise<HostAccess> {
    const { credentials, templates, apiOf, defaultProvider } = this.#options;
    const { metadata, spec } = conversation;
    const { repository } = spec;
    if (repository === undefined)
      throw unsupported('The conversation has no repository, and so no pull requests.');
    const { provider = defaultProvider, name } = repository;
    const api = provider === undefined ? undefined : apiOf(provider);
    if (provider === undefined || api === undefined)
      throw unsupported('The gateway can not open pull requests on this git host.');
    const template = templates.store.get(metadata.namespace, spec.templateName);
    const { owner } = spec;
    const policyOf = (named: string) =>
      gitPolicyOf(template?.spec.git, { owner, repository: named });
    const policy = policyOf(name);
    // Without the template nothing says what the owner may do.
    if (template === undefined || !policy.pullRequests.enabled) throw closed();
    const credential = await credentials.of(spec.owner, provider, name);
    if (credential?.token === undefined)
      throw refused(`The gateway has no credential of ${spec.owner} for this git host.`);
    const sandbox =
      by === 'gateway' ? undefined : (conversation.status?.sandboxUID ?? metadata.uid);
    const target = {
      ...{ repository: name, token: credential.token },
      charge: () => this.#budget.take({ owner, sandbox }),
      signal: AbortSignal.any([
        ...(signal === undefined ? [] : [signal]),
        AbortSignal.timeout(callMs),
      ]),
    };
    return { api, target, provider, policy, policyOf, refused: credential.refused };
  }

  /**
   * The repository under the name that the host reports: hosts redirect no request that changes
   * something under an old name. Throws where the policy for the new name allows no pull requests.
   */
  async #atPresentName({ api, target, policyOf }: HostAccess): Promise<PresentRepository> {
    const { name, defaultBranch } = await api.repository(target);
    const policy = policyOf(name);
    if (!policy.pullRequests.enabled) throw closed();
    return { target: { ...target, repository: name }, defaultBranch, policy };
  }

  async #stored({ metadata: { namespace, name, uid } }: CachedConversation): Promise<Conversation> {
    const stored = await this.#options.client.get(conversations, namespace, name);
    if (stored.metadata.uid !== uid) throw notFound('conversation');
    return stored;
  }

  async #countWrite({ conversation }: PullRequestCall, { pullRequests }: GitPolicy): Promise<void> {
    const { maxPerHour } = pullRequests;
    if (!(await this.#writes.take(conversation, 'pullRequests', maxPerHour)))
      throw new ProblemError(
        'rate-limited',
        `A conversation may open pull requests and comment ${maxPerHour} times in an hour.`,
        { retryAfterSeconds: 600 },
      );
  }

  /** Stores a pull request in the status, in place of the one with its number. */
  #record(conversation: CachedConversation, pullRequest: PullRequestRecord): Promise<unknown> {
    return this.#write(conversation, (known) => [
      ...known.filter((other) => !isSame(other, pullRequest)).slice(1 - maxPullRequests),
      pullRequest,
    ]);
  }

  /** Stores what has changed of a pull request that the status has. */
  async #update(
    conversation: CachedConversation,
    provider: string,
    { repository }: Pick<ApiTarget, 'repository'>,
    pullRequest: PullRequest,
  ): Promise<void> {
    const now = isoTime(this.#options.clock);
    const seen = recordOf(pullRequest, { provider, repository }, now);
    const known = conversation.status?.pullRequests?.find((other) => isSame(other, seen));
    if (known === undefined || isUpToDate(known, seen)) return;
    await this.#write(conversation, (all) =>
      all.map((other) =>
        isSame(other, seen)
          ? { ...seen, stateTime: other.state === seen.state ? other.stateTime : now }
          : other,
      ),
    );
  }

  #write(
    conversation: CachedConversation,
    change: (known: readonly PullRequestRecord[]) => readonly PullRequestRecord[],
  ): Promise<unknown> {
    const { client } = this.#options;
    return writeOnStored(
      () => this.#stored(conversation),
      ({ metadata: { namespace, name, resourceVersion }, status }) =>
        client.mergePatch(
          conversations,
          namespace,
          name,
          {
            metadata: { resourceVersion },
            status: { pullRequests: change(status?.pullRequests ?? []) },
          },
          { subresource: 'status' },
        ),
    );
  }

  #announce(call: PullRequestCall, pullRequest: PullRequestRecord): void {
    const { events, metrics } = this.#options;
    const { number, url, provider, repository, head, base } = pullRequest;
    const { apiVersion, kind, metadata } = call.conversation;
    metrics.pullRequests.inc({ provider });
    events.record(
      { apiVersion, kind, metadata },
      {
        ...{ type: 'Normal', reason: 'PullRequestOpened' },
        message: `Opened pull request ${number} of ${head} to ${base} in ${repository}: ${url}`,
      },
    );
  }

  #forgetDetails(call: PullRequestCall, number: number): void {
    this.#details.delete(detailsKey(call, number));
  }

  /**
   * Writes a line of the audit before the host acts, and one with the outcome afterwards. Unknown:
   * the host may have acted.
   */
  async #audited<T>(
    line: string,
    call: PullRequestCall,
    {
      fields,
      act,
      result,
    }: {
      readonly fields: object;
      readonly act: () => Promise<T>;
      readonly result: (done: T) => object;
    },
  ): Promise<T> {
    this.#audit(`${line}Started`, call, fields);
    try {
      const done = await act();
      this.#audit(line, call, { ...fields, outcome: 'Accepted', ...result(done) });
      return done;
    } catch (error) {
      const isRefusal = error instanceof HostApiError && error.code !== 'unavailable';
      this.#audit(line, call, { ...fields, outcome: isRefusal ? 'Rejected' : 'Unknown' });
      throw error;
    }
  }

  #audit(line: string, { conversation, by }: PullRequestCall, fields: object): void {
    const { metadata, spec } = conversation;
    this.#options.audit.info(line, {
      ...{ owner: spec.owner, conversation: metadata.name, by },
      ...fields,
    });
  }
}

/**
 * Creates a pull request, or finds the open one of the branch. The host decides, because it accepts
 * one for each branch; a lost answer counts as created when a read then shows the pull request.
 */
async function openOnce(
  api: HostApi,
  target: ApiTarget,
  wanted: Parameters<HostApi['create']>[1],
): Promise<{ readonly opened: PullRequest; readonly isNew: boolean }> {
  try {
    return { opened: await api.create(target, wanted), isNew: true };
  } catch (error) {
    if (!(error instanceof HostApiError)) throw error;
    if (error.code !== 'exists' && error.code !== 'unavailable') throw error;
    const opened = await api.openOf(target, wanted.head).catch(() => undefined);
    if (opened === undefined) throw error;
    return { opened, isNew: error.code === 'unavailable' && opened.title === wanted.title };
  }
}

const recordOf = (
  { number, url, title, head, base, isDraft, state }: PullRequest,
  { provider, repository }: Pick<PullRequestRecord, 'provider' | 'repository'>,
  time: string,
): PullRequestRecord => ({
  ...{ number, url, provider, repository, head, base, draft: isDraft },
  title: plainText(title, maxTitleLength),
  ...{ state: stateOf[state], stateTime: time },
});

type Identity = Pick<PullRequestRecord, 'number' | 'provider' | 'repository'>;
const isSame = (one: Identity, other: Identity): boolean =>
  one.number === other.number &&
  one.provider === other.provider &&
  one.repository === other.repository;

const isUpToDate = (known: PullRequestRecord, seen: PullRequestRecord): boolean =>
  known.state === seen.state &&
  known.draft === seen.draft &&
  known.title === seen.title &&
  known.url === seen.url &&
  known.base === seen.base;

/** The branch of the last push that the host has accepted. */
function lastPushed({ status }: Pick<Conversation, 'status'>): string | undefined {
  const push = status?.pushes?.findLast(({ outcome }) => outcome === 'Accepted');
  return push?.ref.startsWith(heads) === true ? push.ref.slice(heads.length) : undefined;
}

/** Numbers of the pull requests that a conversation has opened or is about, the last one last. */
const numbersOf = ({ spec, status }: Pick<Conversation, 'spec' | 'status'>): readonly number[] => [
  ...(spec.prNumbers ?? []),
  ...(status?.pullRequests ?? []).map(({ number }) => number),
];

function numberOf(conversation: Conversation, number: number | undefined): number {
  const known = number ?? numbersOf(conversation).at(-1);
  if (known === undefined)
    throw new ProblemError('not-found', 'The conversation has no pull request.');
  return known;
}

const detailsKey = ({ conversation }: PullRequestCall, number: number): string =>
  `${conversation.metadata.uid}/${number}`;

/** Throws where the policy lets no sandbox push the branch. */
function checkHead(head: string, { push }: GitPolicy): void {
  if (push.enabled && isPushable(head, push)) return;
  throw refused(
    `The policy of the sandbox has no pull request for ${head}: ${push.enabled ? pushableBranches(push) : 'no branch'} may be pushed.`,
  );
}

const closed = (): ProblemError =>
  refused('The policy of the sandbox allows no pull requests here.');
const refused = (detail: string): ProblemError => new ProblemError('pull-request-refused', detail);
const unsupported = (detail: string): ProblemError =>
  new ProblemError('pull-requests-unsupported', detail);
const nothingPushed = (): ProblemError =>
  new ProblemError('invalid-request', 'Nothing has been pushed, and no branch was named.', {
    errors: [{ path: 'body.head', message: 'is required until the sandbox has pushed a branch' }],
  });
const sameBranch = (head: string): ProblemError =>
  new ProblemError('invalid-request', `The branch ${head} can not get its own changes.`, {
    errors: [{ path: 'body.base', message: 'must be another branch than head' }],
  });
