import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { LRUCache } from 'lru-cache';
import type { Runtime } from '@conversation-operator/base/runtime';
import type { Logger } from '@conversation-operator/base/logger';
import { TokenBucket } from '@conversation-operator/base/token-bucket';
import { matchesPattern } from '../../resources/agent-settings.ts';
import { forgeName, withoutGitEnding } from '../../resources/git-settings.ts';
import { expiryBy } from '../lookup/cache.ts';
import type { GithubAppClient } from './github-app-client.ts';
import { HostApiError } from './host-api/host-api.ts';
import { basicAuthorization, type CredentialFound, type CredentialSource } from './hosts.ts';

/** Patterns of the repositories that the App opens for each owner. The key `*` means all owners. */
export type GithubAppOwners = Readonly<Record<string, readonly string[]>>;

export interface GithubAppOptions extends Pick<Runtime, 'clock' | 'logger'> {
  readonly appId: string;
  /** The configured provider whose repositories the App opens. */
  readonly provider: string;
  readonly owners: GithubAppOwners;
  readonly client: Pick<GithubAppClient, 'installationOf' | 'mint'>;
}

/** Remaining lifetime at which a token is renewed. */
const renewBeforeMs = 5 * 60_000;
/** Minimum remaining lifetime of a token that is still used because it can not be renewed. */
const lastUseBeforeMs = 60_000;
/** Maximum time for which the gateway uses a token. Tokens of GitHub are valid for one hour. */
const maxLifetimeMs = 3_600_000;
const installationMs = 5 * 60_000;
/** Delay before GitHub is asked again for a repository without an installation. */
const noneMs = 60_000;
/** Delay before GitHub is asked again after an error; `busyMs` if GitHub limits the rate. */
const retryMs = 10_000;
const busyMs = 60_000;
/** Minimum age of a token that is discarded when a host rejects it. */
const refusedAfterMs = 60_000;
/** Budget of one owner for new tokens. GitHub allows an App some thousands of requests an hour. */
const perOwner = { burst: 300, intervalMs: 5_000 };
/** Delay before the exhausted budget of an owner is logged again. */
const repeatMs = 3_600_000;
const maxRepositories = 10_000;
const maxOwners = 10_000;
const maxLogged = 1_000;

/** A repository with a token, or without one (`none`). Times are from the monotonic clock. */
type State =
  | {
      readonly kind: 'token';
      readonly token: string;
      readonly installation: number;
      readonly mintedAt: number;
      readonly renewAt: number;
      readonly endsAt: number;
    }
  | { readonly kind: 'none'; readonly renewAt: number };

/**
 * Whether the rules let the App serve an owner for a repository. Case and the ending `.git` are
 * ignored, because GitHub ignores them in names.
 */
export function isServed(owners: GithubAppOwners, owner: string, repository: string): boolean {
  const rulesOf = (name: string) => (Object.hasOwn(owners, name) ? (owners[name] ?? []) : []);
  return [...rulesOf('*'), ...rulesOf(owner)].some((pattern) =>
    matchesPattern(forgeName(repository), pattern.toLowerCase()),
  );
}

/**
 * Credentials of a GitHub App: short-lived tokens, each for one repository. If the rules let the
 * App serve an owner for a repository, but there is no token, the credential is `withheld`, because
 * a credential of another source may open more repositories.
 */
export class GithubApp {
  readonly #options: GithubAppOptions;
  /** States by repository in lower case. All owners for which `isServed` is true share a state. */
  readonly #states = recentlyUsed<State>(maxRepositories);
  readonly #installations = recentlyUsed<{ readonly id: number; readonly until: number }>(
    maxRepositories,
  );
  readonly #underWay = new Map<string, Promise<State>>();
  readonly #budgets = recentlyUsed<TokenBucket>(maxOwners);
  /** Owners whose exhausted budget has been logged. */
  readonly #exhausted: LRUCache<string, true>;
  readonly #log: ProblemLog;

  constructor(options: GithubAppOptions) {
    this.#options = options;
    this.#log = new ProblemLog(options);
    this.#exhausted = new LRUCache({ max: maxOwners, ttl: repeatMs, ...expiryBy(options.clock) });
  }

  readonly source: CredentialSource = async (owner, provider, named) => {
    if (provider !== this.#options.provider || named === undefined) return 'absent';
    const repository = withoutGitEnding(named);
    if (repository.split('/').length !== 2) return 'absent';
    if (!isServed(this.#options.owners, owner, repository)) return 'absent';
    return this.#credentialIn(await this.#stateOf(owner, repository), repository);
  };

  #credentialIn(state: State, repository: string): CredentialFound {
    if (state.kind === 'none') return 'withheld';
    const { appId, provider } = this.#options;
    const { token, installation } = state;
    return {
      authorization: basicAuthorization('x-access-token', token),
      token,
      name: `GitHub App ${appId}`,
      identity: JSON.stringify([provider, appId, installation, repository.toLowerCase()]),
      refused: () => this.#forget(repository.toLowerCase(), state),
    };
  }

  /** Discards a rejected token: a new installation of the App invalidates its earlier tokens. */
  #forget(key: string, { token, mintedAt }: Extract<State, { readonly kind: 'token' }>): void {
    const known = this.#states.peek(key);
    if (known?.kind !== 'token' || known.token !== token) return;
    if (this.#now() < mintedAt + refusedAfterMs) return;
    this.#states.delete(key);
    this.#installations.delete(key);
  }

  async #stateOf(owner: string, repository: string): Promise<State> {
    const key = repository.toLowerCase();
    const known = this.#states.get(key);
    if (known !== undefined && this.#now() < known.renewAt) return known;
    const underWay = this.#underWay.get(key);
    if (underWay !== undefined) return underWay;
    if (!this.#mayAsk(owner)) return this.#kept(known, retryMs);
    const renewal = this.#renewed(key, repository, known).finally(() => this.#underWay.delete(key));
    this.#underWay.set(key, renewal);
    const state = await renewal;
    this.#states.set(key, state);
    return state;
  }

  /** Never rejects. */
  async #renewed(key: string, repository: string, known: State | undefined): Promise<State> {
    try {
      const installation = await this.#installationOf(key, repository);
      const state =
        installation === undefined
          ? none(this.#now() + noneMs)
          : await this.#minted(key, repository, installation);
      this.#log.recovered();
      return state;
    } catch (error) {
      this.#log.failed(error);
      const code = error instanceof HostApiError ? error.code : 'unavailable';
      const isPassing = code === 'unavailable' || code === 'busy';
      return this.#kept(isPassing ? known : undefined, code === 'busy' ? busyMs : retryMs);
    }
  }

  /** The known token while it is valid, else `none`. GitHub is asked again after `delayMs`. */
  #kept(known: State | undefined, delayMs: number): State {
    const renewAt = this.#now() + delayMs;
    return known?.kind === 'token' && this.#now() < known.endsAt - lastUseBeforeMs
      ? { ...known, renewAt: Math.min(renewAt, known.endsAt - lastUseBeforeMs) }
      : none(renewAt);
  }

  async #installationOf(key: string, repository: string): Promise<number | undefined> {
    const known = this.#installations.get(key);
    if (known !== undefined && this.#now() < known.until) return known.id;
    const id = await this.#options.client.installationOf(repository);
    if (id === undefined) this.#installations.delete(key);
    else this.#installations.set(key, { id, until: this.#now() + installationMs });
    return id;
  }

  async #minted(key: string, repository: string, installation: number): Promise<State> {
    const { clock, client } = this.#options;
    // The lifetime is counted from before the request, so that a slow response does not prolong it.
    const [wall, begin] = [clock.now(), this.#now()];
    try {
      const { token, expiresAt } = await client.mint(installation, repository);
      const endsAt = begin + Math.min(expiresAt - wall, maxLifetimeMs);
      this.#log.repositoryRecovered(key);
      const renewAt = endsAt - renewBeforeMs;
      return { kind: 'token', token, installation, mintedAt: begin, endsAt, renewAt };
    } catch (error) {
      const isOfRepository =
        error instanceof HostApiError && (error.code === 'invalid' || error.code === 'not-found');
      if (!isOfRepository) throw error;
      this.#installations.delete(key);
      this.#log.repositoryFailed(key, error);
      return none(this.#now() + noneMs);
    }
  }

  #mayAsk(owner: string): boolean {
    const budget = this.#budgets.get(owner) ?? new TokenBucket(perOwner);
    this.#budgets.set(owner, budget);
    if (budget.availableAt(this.#now()) > 0) {
      budget.take(this.#now());
      return true;
    }
    if (!this.#exhausted.has(owner)) {
      this.#exhausted.set(owner, true);
      this.#options.logger.warn('an owner asks for tokens of the GitHub App too often', { owner });
    }
    return false;
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }
}

const none = (renewAt: number): State => ({ kind: 'none', renewAt });

/**
 * Logs each new error once, and its end. The lines contain no keys, no tokens, and no names of
 * repositories for which `isServed` is false.
 */
class ProblemLog {
  readonly #options: { readonly logger: Logger; readonly appId: string };
  #problem: string | undefined;
  readonly #repositories = recentlyUsed<string>(maxLogged);

  constructor(options: { readonly logger: Logger; readonly appId: string }) {
    this.#options = options;
  }

  failed(error: unknown): void {
    const [code, reason] =
      error instanceof HostApiError ? [error.code, error.message] : ['unavailable', 'an error'];
    if (this.#problem === code) return;
    this.#problem = code;
    const { appId, logger } = this.#options;
    logger.error('the GitHub App gets no tokens', { appId, code, reason });
  }

  recovered(): void {
    if (this.#problem === undefined) return;
    this.#problem = undefined;
    const { appId, logger } = this.#options;
    logger.info('the GitHub App gets tokens again', { appId });
  }

  repositoryFailed(repository: string, { code, message: reason }: HostApiError): void {
    if (this.#repositories.get(repository) === code) return;
    this.#repositories.set(repository, code);
    const { appId, logger } = this.#options;
    logger.warn('the GitHub App gets no token for a repository', {
      appId,
      repository,
      code,
      reason,
    });
  }

  repositoryRecovered(repository: string): void {
    if (!this.#repositories.delete(repository)) return;
    const { appId, logger } = this.#options;
    logger.info('the GitHub App gets tokens for a repository again', { appId, repository });
  }
}
