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
  readonly pullRequests: (PullRequest & { readonly body?: string })[] = [];
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
  /** New names of repositories. As on real hosts, reads under the old name are redirected. */
  readonly renamed = new Map<string, string>();

  repository(target: ApiTarget) {
    const name = this.renamed.get(target.repository) ?? target.repository;
    return this.#call('repository', target, () => ({ name, defaultBranch: 'main' }));
  }

  create(
    target: ApiTarget,
    { title, body, head, base, draft }: NewPullRequest,
  ): Promise<PullRequest> {
    return this.#call('create', target, () => {
      this.#refuseMoved(target);
      if (this.pullRequests.some((each) => each.head === head && each.state === 'open'))
        throw new HostApiError('exists', 'There is one.');
      const number = this.pullRequests.length + 1;
      const url = `https://git.example.com/${target.repository}/pulls/${number}`;
      const made = { number, url, state: 'open', isDraft: draft, title, body, head, base } as const;
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
      body: '',
      ...this.#of(number),
      comments: this.comments
        .filter((each) => each.number === number)
        .map(({ body }) => ({ author: 'alice', body, time: '2026-03-01T12:00:00Z' })),
    }));
  }

  comment(target: ApiTarget, number: number, body: string) {
    return this.#call('comment', target, () => {
      this.#refuseMoved(target);
      const { url } = this.#of(number);
      this.comments.push({ number, body });
      return { url: `${url}#comment-${this.comments.length}` };
    });
  }

  /** Changes a pull request as a person does on the page of the host. */
  change(number: number, changes: Partial<PullRequest>): void {
    this.pullRequests[number - 1] = { ...this.#of(number), ...changes };
  }

  #of(number: number): PullRequest & { readonly body?: string } {
    const found = this.pullRequests[number - 1];
    if (found === undefined) throw new HostApiError('not-found', 'There is no such pull request.');
    return found;
  }

  #refuseMoved({ repository }: ApiTarget): void {
    if (this.renamed.has(repository)) throw new HostApiError('not-found', 'It has another name.');
  }

  /** Rejects with the error of a budget too. */
  async #call<T>(
    method: Method,
    { token, repository, charge }: ApiTarget,
    act: () => T,
  ): Promise<T> {
    charge?.();
    this.calls.push({ method, token, repository });
    const fault = this.faults.get(method);
    this.faults.delete(method);
    const failed = fault && new HostApiError(fault.code, `The host says ${fault.code}.`);
    if (failed !== undefined && fault?.when === 'before') throw failed;
    if (!this.tokens.includes(token))
      throw new HostApiError('denied', 'The token does not open it.');
    const done = await Promise.resolve().then(act);
    if (failed !== undefined) throw failed;
    return done;
  }
}
