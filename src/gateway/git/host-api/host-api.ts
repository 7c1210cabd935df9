/** A repository of a git host, and the secret that opens the API of the host for it. */
export interface ApiTarget {
  /** Path on the host: owner/name, or a path through groups. */
  readonly repository: string;
  /** Access token of the host: a secret. */
  readonly token: string;
  readonly signal: AbortSignal;
  /** Called before each request; throws its own error where the host must not be asked. */
  readonly charge?: () => void;
}

export interface HostRepository {
  /** The current name, which differs from that of the request after a rename. */
  readonly name: string;
  readonly defaultBranch: string;
}

/** Draft is a flag of an open pull request, so that a state is one word. */
export const pullRequestStates = ['open', 'closed', 'merged'] as const;
export type PullRequestState = (typeof pullRequestStates)[number];

/** A pull request, or a merge request of GitLab, as its host reports it. */
export interface PullRequest {
  /** Number within the repository, as people write it: the iid of GitLab. */
  readonly number: number;
  /** URL of its page, which begins with http:// or https://. */
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
  /** The beginning of its text. */
  readonly body: string;
  /** RFC 3339, as the host reports it. */
  readonly time: string;
  readonly path?: string;
  readonly line?: number;
}

export interface PullRequestDetails extends PullRequest {
  /** The beginning of its description. */
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
 * - exists: there is an open pull request for the branch.
 * - denied: the token does not open the repository, or may not do this.
 * - not-found: there is no such repository or pull request, or the token does not show it.
 * - invalid: the host refuses the values: an unknown branch, or a branch without changes.
 * - busy: the host limits the rate of requests.
 * - unavailable: the host does not answer, or its answer can't be read.
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

/** The message may contain a text of the host, bounded and without control characters. */
export class HostApiError extends Error {
  override readonly name = 'HostApiError';
  readonly code: HostApiErrorCode;

  constructor(code: HostApiErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The API of one git host. Methods throw `HostApiError`, and the reason of an aborted signal. */
export interface HostApi {
  /** Throws where the repository has no branch. */
  repository(target: ApiTarget): Promise<HostRepository>;
  create(target: ApiTarget, pullRequest: NewPullRequest): Promise<PullRequest>;
  /** The open pull request of a branch of the repository itself, not of a fork. */
  openOf(target: ApiTarget, head: string): Promise<PullRequest | undefined>;
  get(target: ApiTarget, number: number): Promise<PullRequest>;
  details(target: ApiTarget, number: number): Promise<PullRequestDetails>;
  /** Adds a comment and returns the URL of its page. */
  comment(target: ApiTarget, number: number, body: string): Promise<{ readonly url: string }>;
}
