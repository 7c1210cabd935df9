/** A repository of a git host, with a token for the API of the host. */
export interface ApiTarget {
  /** Path on the host: owner/name, or a path with the groups of GitLab. */
  readonly repository: string;
  /** Access token of the host: a secret. */
  readonly token: string;
  readonly signal: AbortSignal;
  /** Called before each request. Throws its own error if the host must not be asked. */
  readonly charge?: () => void;
}

export interface HostRepository {
  /** The current name, which differs from the requested one after a rename. */
  readonly name: string;
  readonly defaultBranch: string;
}

/** A draft is an open pull request with `isDraft`, not a state of its own. */
export const pullRequestStates = ['open', 'closed', 'merged'] as const;
export type PullRequestState = (typeof pullRequestStates)[number];

/** A pull request, or a merge request of GitLab, as its host reports it. */
export interface PullRequest {
  /** Number within the repository, as people write it; in GitLab, the `iid`. */
  readonly number: number;
  /** URL of the page of the pull request, which begins with http:// or https://. */
  readonly url: string;
  readonly state: PullRequestState;
  readonly isDraft: boolean;
  readonly title: string;
  readonly head: string;
  readonly base: string;
}

/** One comment of a person or a program, on the pull request or on a line of its changes. */
export interface PullRequestComment {
  readonly author: string;
  /** The beginning of the comment. */
  readonly body: string;
  /** Time in RFC 3339 form, as the host reports it. */
  readonly time: string;
  readonly path?: string;
  readonly line?: number;
}

export interface PullRequestDetails extends PullRequest {
  /** The beginning of the description. */
  readonly body: string;
  /** The latest comments, oldest first. */
  readonly comments: readonly PullRequestComment[];
}

export interface NewPullRequest {
  readonly title: string;
  readonly body: string;
  readonly head: string;
  readonly base: string;
  readonly draft: boolean;
}

/**
 * - exists: the branch has an open pull request.
 * - denied: the token does not open the repository, or does not allow the operation.
 * - not-found: there is no such repository or pull request, or the token does not show it.
 * - invalid: the host rejects the values, such as an unknown branch or a branch without changes.
 * - busy: the host limits the rate of requests.
 * - unavailable: the host does not respond, or its response can't be parsed.
 */
export const hostApiErrorCodes = [
  'exists',
  'denied',
  'not-found',
  'invalid',
  'busy',
  'unavailable',
] as const;
export type HostApiErrorCode = (typeof hostApiErrorCodes)[number];

/** The message may contain a text of the host, of limited length and without control characters. */
export class HostApiError extends Error {
  override readonly name = 'HostApiError';
  readonly code: HostApiErrorCode;

  constructor(code: HostApiErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The API of one git host. Methods throw `HostApiError`, or the reason of an aborted signal. */
export interface HostApi {
  /** Throws if the repository has no branch. */
  repository(target: ApiTarget): Promise<HostRepository>;
  create(target: ApiTarget, pullRequest: NewPullRequest): Promise<PullRequest>;
  /** The open pull request of a branch of the repository itself, not of a fork. */
  openOf(target: ApiTarget, head: string): Promise<PullRequest | undefined>;
  get(target: ApiTarget, number: number): Promise<PullRequest>;
  details(target: ApiTarget, number: number): Promise<PullRequestDetails>;
  /** Adds a comment and returns the URL of its page. */
  comment(target: ApiTarget, number: number, body: string): Promise<{ readonly url: string }>;
}
