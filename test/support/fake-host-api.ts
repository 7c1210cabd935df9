import {
  HostApiError,
  type ApiTarget,
  type HostApi,
  type HostApiErrorCode,
  type NewPullRequest,
  type PullRequest,
} from '../../src/gateway/git/host-api/host-api.ts';

type Method = keyof HostApi;

/** A git host in memory, with the rules of the real ones: a branch has one open pull request. */
export class FakeHostApi implements HostApi {
  readonly pullRequests: PullRequest[] = [];
  readonly comments: { readonly number: number; readonly body: string }[] = [];
  /** Tokens and repositories of the calls. */
  readonly calls: {
    readonly method: Method;
    readonly token: string;
    readonly repository: string;
  }[] = [];
  /** Errors of the next call of a method, before or after the host has acted. */
  readonly faults = new Map<
    Method,
    { readonly code: HostApiErrorCode; readonly when: 'before' | 'after' }
  >();
  tokens: readonly string[] = ['s3cret'];

  defaultBranch(target: ApiTarget): Promise<string> {
    return this.#call('defaultBranch', target, () => 'main');
  }

  create(target: ApiTarget, { title, head, base, draft }: NewPullRequest): Promise<PullRequest> {
    return this.#call('create', target, () => {
      if (this.pullRequests.some((each) => each.head === head && each.state === 'open'))
        throw new HostApiError('exists', 'There is one.');
      const number = this.pullRequests.length + 1;
      const url = `https://git.example.com/${target.repository}/pulls/${number}`;
      const made = { number, url, state: 'open', isDraft: draft, title, head, base } as const;
      this.pullRequests.push(made);
      return made;
    });
  }

  openOf(target: ApiTarget, head: string): Promise<PullRequest | undefined> {
    return this.#call('openOf', target, () =>
      this.pullRequests.find((each) => each.head === head && each.state === 'open'),
    );
  }

  get(target: ApiTarget, number: number): Promise<PullRequest> {
    return this.#call('get', target, () => this.#of(number));
  }

  details(target: ApiTarget, number: number) {
    return this.#call('details', target, () => ({
      ...this.#of(number),
      body: 'A description.',
      comments: this.comments
        .filter((each) => each.number === number)
        .map(({ body }) => ({ author: 'alice', body, time: '2026-03-01T12:00:00Z' })),
    }));
  }

  comment(target: ApiTarget, number: number, body: string) {
    return this.#call('comment', target, () => {
      const { url } = this.#of(number);
      this.comments.push({ number, body });
      return { url: `${url}#comment-${this.comments.length}` };
    });
  }

  /** A person changes a pull request. */
  change(number: number, changes: Partial<PullRequest>): void {
    this.pullRequests[number - 1] = { ...this.#of(number), ...changes };
  }

  #of(number: number): PullRequest {
    const found = this.pullRequests[number - 1];
    if (found === undefined) throw new HostApiError('not-found', 'There is no such pull request.');
    return found;
  }

  #call<T>(method: Method, { token, repository }: ApiTarget, act: () => T): Promise<T> {
    this.calls.push({ method, token, repository });
    const fault = this.faults.get(method);
    this.faults.delete(method);
    const failed = fault && new HostApiError(fault.code, `The host says ${fault.code}.`);
    if (failed !== undefined && fault?.when === 'before') return Promise.reject(failed);
    if (!this.tokens.includes(token))
      return Promise.reject(new HostApiError('denied', 'The token does not open it.'));
    try {
      const done = act();
      return failed === undefined ? Promise.resolve(done) : Promise.reject(failed);
    } catch (error) {
      return Promise.reject(error instanceof Error ? error : new Error(String(error)));
    }
  }
}
