import type { Clock } from '@conversation-operator/base/clock';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { gitPolicyOf, type GitPolicy } from '../../resources/git-settings.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
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
  /** The API of a provider; undefined where the gateway can open no pull requests there. */
  readonly apiOf: (provider: string) => HostApi | undefined;
  /** The provider of conversations that name none. */
  readonly defaultProvider: string | undefined;
}

/** A request for one conversation. */
export interface PullRequestCall {
  readonly conversation: CachedConversation;
  /** Origin of the request, for the audit. */
  readonly by: 'client' | 'agent' | 'gateway';
  /** Absent: the call is carried through, because the host may have acted already. */
  readonly signal?: AbortSignal | undefined;
}

/** The access of a conversation to its repository, whose policy allows pull requests. */
export interface HostAccess {
  readonly api: HostApi;
  /** The place under which pull requests are recorded, whatever the name on the host is now. */
  readonly place: RecordedPlace;
  /**
   * Asks the host for the present name: hosts redirect no request that changes something under an
   * old name. Each request about a pull request goes to the target that this returns. Throws where
   * the policy for the present name allows no pull requests.
   */
  readonly present: () => Promise<PresentRepository>;
  /** Reports that the host has refused the credential. */
  readonly refused: GitCredential['refused'];
}

/** A repository under its present name, as the host reports it. */
export interface PresentRepository {
  readonly target: ApiTarget;
  readonly defaultBranch: string;
  /** The policies for the name that the conversation has, and for the present one. All count. */
  readonly policies: readonly GitPolicy[];
}

/** Maximum time for all requests to a host that one call makes. */
const callMs = 30_000;

/** GitHub allows a token 5000 requests an hour, and this leaves some to its owner. */
export const hostApiBudget = { perOwner: 3_000, perSandbox: 600 } as const;

/** Decides whether conversations may have pull requests, and with which credential. */
export class HostAccesses {
  readonly #options: HostAccessesOptions;
  readonly #budget: HostBudget;

  constructor(options: HostAccessesOptions) {
    this.#options = options;
    this.#budget = new HostBudget(options.clock, hostApiBudget);
  }

  /** Throws where the conversation has no repository, or the owner may not do this with it. */
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
    // Without the template nothing says what the owner may do.
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
/** The error for something that the policy, or the conversation, does not allow. */
export const refused = (detail: string): ProblemError =>
  new ProblemError('pull-request-refused', detail);
const unsupported = (detail: string): ProblemError =>
  new ProblemError('pull-requests-unsupported', detail);
