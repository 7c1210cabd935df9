import { LRUCache } from 'lru-cache';
import type { Shares } from '@conversation-operator/base/shares';
import type { EventRecorder } from '@conversation-operator/kube/events';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { MeasuredRuntime } from '../../observability/metrics.ts';
import type { GitPolicy } from '../../resources/git-settings.ts';
import type { PullRequestRecord } from '../../resources/pull-request.ts';
import type { Audit } from '../../observability/audit.ts';
import { ProblemError } from '../errors/problem-error.ts';
import {
  HostApiError,
  type ApiTarget,
  type HostApi,
  type PullRequest,
  type PullRequestDetails,
  type HostApiErrorCode,
} from '../git/host-api/host-api.ts';
import { isPushable, pushableBranches } from '../git/push-policy.ts';
import { HourlyLimit } from '../limits/host-budget.ts';
import { newPool } from '../limits/pools.ts';
import { expiryBy } from '../lookup/cache.ts';
import {
  HostAccesses,
  refused,
  type AuditedCall,
  type HostAccess,
  type HostAccessesOptions,
  type PullRequestCall,
} from './host-access.ts';
import { lastPushed, numberOf, numbersOf, PullRequestRecords } from './pull-request-records.ts';
import type { ProblemCode } from '../errors/catalogue.ts';

/** Line ends that git hosts and their bots accept: those of Unicode and Python's `splitlines`. */
// eslint-disable-next-line no-control-regex -- Python ends lines with these too
const lineEnds = /\r\n?|[\v\f\u{1c}-\u{1e}\u{85}\u{2028}\u{2029}]/gv;
/**
 * A command such as `/merge` at the beginning of a line. Invisible characters before and after the
 * slash are skipped, because git hosts trim or drop them.
 */
const command =
  /^([[\s\p{Cc}\p{Cf}]--\n]*)\/(?=[[\p{Cc}\p{Cf}]--\n]*[a-z][^\s\p{Cc}\p{Cf}\/]*(?:[\s\p{Cc}\p{Cf}]|$))/gimv;

/**
 * The text with a backslash before each command, so that neither the git host nor one of its bots
 * executes the command, and Markdown shows the line unchanged. GitLab and common bots close,
 * approve and merge at a line like `/merge`. A path like `/usr/bin` is no command. Every line end
 * becomes a line feed, so that host and gateway see the same lines.
 */
export const withoutQuickActions = (text: string): string =>
  text.replaceAll(lineEnds, '\n').replaceAll(command, String.raw`$1\/`);

const codes: Readonly<Record<HostApiErrorCode, ProblemCode>> = {
  exists: 'pull-request-exists',
  denied: 'git-host-denied',
  'not-found': 'git-host-denied',
  invalid: 'pull-request-invalid',
  busy: 'git-host-busy',
  unavailable: 'git-host-unavailable',
};
const retryAfterSeconds: Partial<Record<HostApiErrorCode, number>> = { busy: 60, unavailable: 5 };

/** The problem for an error of the API of a git host. Clients may read the message. */
function problemOfHost(error: HostApiError): ProblemError {
  const wait = retryAfterSeconds[error.code];
  return new ProblemError(codes[error.code], error.message, {
    cause: error,
    ...(wait === undefined ? {} : { retryAfterSeconds: wait }),
  });
}

export interface PullRequestsOptions
  extends HostAccessesOptions, Pick<MeasuredRuntime, 'clock' | 'logger' | 'metrics'> {
  readonly client: KubeClient;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly audit: Audit;
}

export interface PullRequestRequest {
  readonly title: string;
  readonly body?: string | undefined;
  /** Branch with the changes; by default the branch that the sandbox has pushed last. */
  readonly head?: string | undefined;
  /** Target branch; by default the default branch of the repository. */
  readonly base?: string | undefined;
  readonly draft?: boolean | undefined;
}

export interface OpenedPullRequest {
  readonly pullRequest: PullRequestRecord;
  /** False if the branch already had an open pull request. */
  readonly isNew: boolean;
}

/** Lifetime of cached details of a pull request, because an agent may request them in a loop. */
export const detailsMs = 10_000;
/** Maximum characters of all cached details. */
const maxDetailsLength = 4 * 1024 * 1024;

/**
 * Opens pull requests on git hosts with the credential of a conversation's owner, comments on them,
 * and records them in the status of the conversation. No method merges, closes or approves a pull
 * request. Methods throw `ProblemError`.
 */
export class PullRequests {
  readonly #options: PullRequestsOptions;
  readonly #places: Shares;
  readonly #writes: HourlyLimit;
  readonly #accesses: HostAccesses;
  readonly #records: PullRequestRecords;
  /** Cached details, by the conversation's UID and the number of the pull request. */
  readonly #details: LRUCache<string, PullRequestDetails>;

  constructor(options: PullRequestsOptions) {
    this.#options = options;
    this.#places = newPool('hostCalls', options.clock);
    this.#writes = new HourlyLimit(options);
    this.#accesses = new HostAccesses(options);
    this.#records = new PullRequestRecords(options);
    this.#details = new LRUCache({
      maxSize: maxDetailsLength,
      ttl: detailsMs,
      sizeCalculation: (details) => JSON.stringify(details).length,
      ...expiryBy(options.clock),
    });
  }

  /**
   * Opens a pull request. A branch has at most one open pull request: a repeated call returns it,
   * even if the response to the first call was lost.
   */
  open(call: AuditedCall, request: PullRequestRequest): Promise<OpenedPullRequest> {
    return this.#atHost(call, async ({ api, place, present }) => {
      const stored = await this.#records.stored(call.conversation);
      const head = request.head ?? lastPushed(stored);
      if (head === undefined) throw nothingPushed();
      const { target, defaultBranch, policies } = await present();
      for (const policy of policies) checkHead(head, policy);
      const base = request.base ?? defaultBranch;
      if (base === head) throw sameBranch(head);
      await this.#countWrite(call, policies);
      const { title, draft = false } = request;
      const body = withoutQuickActions(request.body ?? '');
      const wanted = { title, body, head, base, draft };
      const { provider } = place;
      const { repository } = target;
      const line = { ...lineOf(call), provider, repository, head, base, draft };
      const { audit } = this.#options;
      const { opened, isNew } = await this.#audited({
        begin: () => audit('PullRequestStarted', line),
        act: () => openOnce(api, target, wanted),
        end: (outcome, done) =>
          audit('PullRequest', {
            ...line,
            outcome,
            ...(done && { number: done.opened.number, url: done.opened.url, isNew: done.isNew }),
          }),
      });
      this.#forgetDetails(call, opened.number);
      const pullRequest = await this.#records.record(call.conversation, place, opened);
      if (isNew) this.#announce(call, pullRequest);
      return { pullRequest, isNew };
    });
  }

  /** A pull request with its comments; by default the last one of the conversation. */
  details(call: PullRequestCall, number?: number): Promise<PullRequestDetails> {
    return this.#atHost(call, async ({ api, place, present }) => {
      const known = numberOf(await this.#records.stored(call.conversation), number);
      const recent = this.#details.get(detailsKey(call, known));
      if (recent !== undefined) return recent;
      const { target } = await present();
      const details = await api.details(target, known);
      this.#details.set(detailsKey(call, known), details);
      await this.#records.update(call.conversation, place, details);
      return details;
    });
  }

  /** Comments on a pull request of the conversation; by default on the last one. */
  comment(
    call: AuditedCall,
    { number, body }: { readonly number?: number | undefined; readonly body: string },
  ): Promise<{ readonly number: number; readonly url: string }> {
    return this.#atHost(call, async ({ api, place, present }) => {
      const stored = await this.#records.stored(call.conversation);
      const known = numberOf(stored, number);
      if (!numbersOf(stored).includes(known))
        throw refused(`The pull request ${known} is none of this conversation.`);
      const { target, policies } = await present();
      await this.#countWrite(call, policies);
      this.#forgetDetails(call, known);
      const { provider } = place;
      const { repository } = target;
      const line = { ...lineOf(call), provider, repository, number: known };
      const { audit } = this.#options;
      const { url } = await this.#audited({
        begin: () => audit('PullRequestCommentStarted', line),
        act: () => api.comment(target, known, withoutQuickActions(body)),
        end: (outcome, done) => audit('PullRequestComment', { ...line, outcome, ...done }),
      });
      this.#forgetDetails(call, known);
      return { number: known, url };
    });
  }

  /**
   * Reads the state of a recorded pull request again, and stores a change. The read does not count
   * against the budget of the sandbox, because the sandbox has not caused it.
   */
  refresh(call: PullRequestCall, { number }: Pick<PullRequestRecord, 'number'>): Promise<void> {
    return this.#atHost({ ...call, by: 'gateway' }, async ({ api, place, present }) => {
      const { target } = await present();
      await this.#records.update(call.conversation, place, await api.get(target, number));
    });
  }

  /** Calls a host with a permit of the owner, and converts its errors into problems. */
  async #atHost<T>(call: PullRequestCall, work: (access: HostAccess) => Promise<T>): Promise<T> {
    const { owner } = call.conversation.spec;
    const release = await this.#places.wait({ owner }, call);
    let access: HostAccess | undefined;
    try {
      access = await this.#accesses.of(call);
      return await work(access);
    } catch (error) {
      if (!(error instanceof HostApiError)) throw error;
      if (error.code === 'denied') access?.refused?.();
      throw problemOfHost(error);
    } finally {
      release();
    }
  }

  async #countWrite(
    { conversation }: PullRequestCall,
    policies: readonly GitPolicy[],
  ): Promise<void> {
    const maxPerHour = Math.min(...policies.map(({ pullRequests }) => pullRequests.maxPerHour));
    if (!(await this.#writes.take(conversation, 'pullRequests', maxPerHour)))
      throw new ProblemError(
        'rate-limited',
        `A conversation may open pull requests and comment ${maxPerHour} times in an hour.`,
        { retryAfterSeconds: 600 },
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
        type: 'Normal',
        reason: 'PullRequestOpened',
        message: `Opened pull request ${number} of ${head} to ${base} in ${repository}: ${url}`,
      },
    );
  }

  #forgetDetails(call: PullRequestCall, number: number): void {
    this.#details.delete(detailsKey(call, number));
  }

  /**
   * Writes a line of the audit log before the request to the host, and a line with the outcome
   * after the request. The outcome Unknown means that the host may have acted.
   */
  async #audited<T>({
    begin,
    act,
    end,
  }: {
    readonly begin: () => void;
    readonly act: () => Promise<T>;
    readonly end: (outcome: 'Accepted' | 'Rejected' | 'Unknown', done?: T) => void;
  }): Promise<T> {
    begin();
    try {
      const done = await act();
      end('Accepted', done);
      return done;
    } catch (error) {
      const isRefusal = error instanceof HostApiError && error.code !== 'unavailable';
      end(isRefusal ? 'Rejected' : 'Unknown');
      throw error;
    }
  }
}

/** The fields of a line that all requests of a conversation to a host have. */
const lineOf = ({ conversation: { metadata, spec }, by, from }: AuditedCall) => ({
  ...from,
  owner: spec.owner,
  conversation: metadata.name,
  by,
});

/**
 * Creates a pull request, or returns the open one of the branch. The host accepts only one for each
 * branch. A create without a response counts as successful when a read then shows the pull request.
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

const detailsKey = ({ conversation }: PullRequestCall, number: number): string =>
  `${conversation.metadata.uid}/${number}`;

/** Throws if the policy does not let a sandbox push the branch. */
function checkHead(head: string, { push }: GitPolicy): void {
  if (push.enabled && isPushable(head, push)) return;
  throw refused(
    `The policy of the sandbox has no pull request for ${head}: ${push.enabled ? pushableBranches(push) : 'no branch'} may be pushed.`,
  );
}

const nothingPushed = (): ProblemError =>
  new ProblemError('invalid-request', 'Nothing has been pushed, and no branch was named.', {
    errors: [{ path: 'body.head', message: 'is required until the sandbox has pushed a branch' }],
  });
const sameBranch = (head: string): ProblemError =>
  new ProblemError('invalid-request', `The branch ${head} can not get its own changes.`, {
    errors: [{ path: 'body.base', message: 'must be another branch than head' }],
  });
