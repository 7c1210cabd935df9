import type { Clock } from '@conversation-operator/base/clock';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { gitPolicyOf, type GitPolicy } from '../../resources/git-settings.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { AuditHolder, AuditOrigin } from '../../observability/audit.ts';
import { ProblemError } from '../errors/problem-error.ts';
import type { GitCredential, GitCredentials } from '../git/hosts.ts';
import type { ApiTarget, HostApi } from '../git/host-api/host-api.ts';
import { HostBudget } from '../limits/host-budget.ts';
import type { Cache } from '../lookup/cache.ts';
import type { RecordedPlace } from './pull-request-records.ts';

export interface HostAccessesOptions {
  readonly clock: Clock;
  readonly credentials: GitCredentials;
  readonly templates: Cache<SandboxTemplate>;
  /** The API of a provider; undefined if the gateway can open no pull requests. */
  readonly apiOf: (provider: string) => HostApi | undefined;
  /** The provider of conversations whose `repository` names no provider. */
  readonly defaultProvider: string | undefined;
}

export interface PullRequestCall {
  readonly conversation: CachedConversation;
  /** Origin of the request, for the audit log. */
  readonly by: 'client' | 'agent' | 'gateway';
  /** Aborts the call. Absent if the call must be completed: the host may have acted already. */
  readonly signal?: AbortSignal | undefined;
}

/** A call that the audit log records, with who makes it. */
export interface AuditedCall extends PullRequestCall {
  readonly from: AuditOrigin & Partial<AuditHolder> & { readonly sandbox?: string };
}

/** The access of a conversation to a repository whose policy allows pull requests. */
export interface HostAccess {
  readonly api: HostApi;
  /** Provider and repository under which pull requests are recorded, even after a rename. */
  readonly place: RecordedPlace;
  /**
   * Asks the host for the current name of the repository, because hosts do not redirect a write
   * that uses an old name. Every request about a pull request uses the returned `target`. Throws if
   * the policy for the current name allows no pull requests.
   */
  readonly present: () => Promise<PresentRepository>;
  readonly refused: GitCredential['refused'];
}

/** A repository under its current name, as the host reports it. */
export interface PresentRepository {
  readonly target: ApiTarget;
  readonly defaultBranch: string;
  /** The policies for the repository's recorded and current names. Both apply. */
  readonly policies: readonly GitPolicy[];
}

/** Maximum time for all requests to a host in one call. */
const callMs = 30_000;

/** Requests per hour. GitHub allows 5000 for a token, so some remain for the token's owner. */
export const hostApiBudget = { perOwner: 3_000, perSandbox: 600 } as const;

/** Decides whether conversations may have pull requests, and with which credential. */
export class HostAccesses {
  readonly #options: HostAccessesOptions;
  readonly #budget: HostBudget;

  constructor(options: HostAccessesOptions) {
    this.#options = options;
    this.#budget = new HostBudget(options.clock, hostApiBudget);
  }

  /** Throws if the conversation has no repository, or may have no pull requests there. */
  async of({ conversation, by, signal }: PullRequestCall): Promise<HostAccess> {
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
    // Without the template, no policy permits anything.
    if (template === undefined || !policy.pullRequests.enabled) throw closed();
    const credential = await credentials.of(spec.owner, provider, name);
    if (credential?.token === undefined)
      throw refused(`The gateway has no credential of ${spec.owner} for this git host.`);
    const sandbox =
      by === 'gateway' ? undefined : (conversation.status?.sandboxUID ?? metadata.uid);
    const target = {
      repository: name,
      token: credential.token,
      charge: () => this.#budget.take({ owner, sandbox }),
      signal: AbortSignal.any([
        ...(signal === undefined ? [] : [signal]),
        AbortSignal.timeout(callMs),
      ]),
    };
    return {
      api,
      place: { provider, repository: name },
      refused: credential.refused,
      present: async () => {
        const { name: presentName, defaultBranch } = await api.repository(target);
        const policies = [policy, policyOf(presentName)];
        if (policies.some(({ pullRequests }) => !pullRequests.enabled)) throw closed();
        return { target: { ...target, repository: presentName }, defaultBranch, policies };
      },
    };
  }
}

const closed = (): ProblemError =>
  refused('The policy of the sandbox allows no pull requests here.');
/** The error for an action that the policy, or the conversation, does not allow. */
export const refused = (detail: string): ProblemError =>
  new ProblemError('pull-request-refused', detail);
const unsupported = (detail: string): ProblemError =>
  new ProblemError('pull-requests-unsupported', detail);
