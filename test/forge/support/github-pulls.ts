import { z } from 'zod';
import {
  githubError,
  type GithubAnswer,
  type GithubCall,
  type GithubOperation,
} from '../../support/github-api.ts';
import { githubExample } from '../../support/github-schema.ts';
import type { Forge, ForgeAnswer } from './forge.ts';

const repositorySchema = z.object({
  id: z.number(),
  full_name: z.string(),
  html_url: z.string(),
  default_branch: z.string(),
  private: z.boolean(),
});
const branchSchema = z.object({
  ref: z.string(),
  sha: z.string(),
  repo: z.object({ id: z.number() }),
});
const pullSchema = z.object({
  number: z.number(),
  title: z.string(),
  body: z.string(),
  html_url: z.string(),
  state: z.enum(['open', 'closed']),
  draft: z.boolean().default(false),
  merged: z.boolean(),
  merged_at: z.string().nullable(),
  comments: z.number(),
  head: branchSchema,
  base: branchSchema,
});
const commentSchema = z.object({
  id: z.number(),
  html_url: z.string(),
  body: z.string(),
  created_at: z.iso.datetime(),
  user: z.object({ login: z.string() }),
});

/** Gitea takes a pull request with such a title for a draft. */
const draftPrefix = 'WIP: ';

type Fields = Readonly<Record<string, unknown>>;
interface PullExample extends Fields {
  readonly head: Fields;
  readonly base: Fields & { readonly repo: Fields };
}
const pullExample = () => githubExample('pull') as PullExample;

/** A pull request of Gitea as GitHub shows it. */
function pullOf({ head, base, draft, title, ...pull }: z.output<typeof pullSchema>): Fields {
  const example = pullExample();
  const branchOf = ({ ref, sha, repo }: z.output<typeof branchSchema>) => ({
    ref,
    sha,
    repo: { ...example.base.repo, id: repo.id },
  });
  return {
    ...example,
    ...pull,
    draft,
    title: draft ? title.slice(draftPrefix.length) : title,
    head: { ...example.head, ...branchOf(head) },
    base: { ...example.base, ...branchOf(base) },
  };
}

/** A repository of Gitea as GitHub shows it. */
const repositoryOf = (repository: z.output<typeof repositorySchema>): Fields => ({
  ...pullExample().base.repo,
  network_count: 0,
  subscribers_count: 0,
  language: null,
  allow_rebase_merge: true,
  ...repository,
});

const commentOf = ({ user, ...comment }: z.output<typeof commentSchema>): Fields => {
  const example = githubExample('comment') as { user: object };
  return { ...example, ...comment, user: { ...example.user, ...user } };
};

const refused = (message: string): GithubAnswer => {
  const { status, body } = githubError(422, 'Validation Failed');
  const errors = [{ resource: 'PullRequest', code: 'custom', message }];
  return { status, body: { ...(body as object), errors } };
};

/**
 * GitHub's operations for pull requests, which a Gitea carries out with the token of each request:
 * what a token may do is the decision of the forge.
 */
export function githubPullOperations(
  forge: Pick<Forge, 'api'>,
): Readonly<Record<string, GithubOperation>> {
  const repositoryIn = ({ params }: GithubCall) =>
    `/repos/${params['owner'] ?? ''}/${params['repo'] ?? ''}`;
  const answerOf = (
    { status, body }: ForgeAnswer,
    present: (body: unknown) => unknown,
  ): GithubAnswer => {
    if (status < 300) return { status, body: present(body) };
    // GitHub hides what a token does not open.
    return status === 401
      ? githubError(401, 'Bad credentials')
      : githubError(status === 403 ? 403 : 404, 'Not Found');
  };
  const read = async (call: GithubCall, path: string, present: (body: unknown) => unknown) =>
    answerOf(
      await forge.api('GET', `${repositoryIn(call)}${path}`, undefined, call.token),
      present,
    );
  const pull = (body: unknown) => pullOf(pullSchema.parse(body));

  return {
    'GET /repos/{owner}/{repo}': (call) =>
      read(call, '', (body) => repositoryOf(repositorySchema.parse(body))),
    'GET /repos/{owner}/{repo}/pulls': (call) => {
      const [, head] = (call.query['head'] ?? '').split(':');
      return read(call, `/pulls?state=${call.query['state'] ?? 'open'}`, (body) =>
        z
          .array(pullSchema)
          .parse(body)
          .filter((each) => head === undefined || each.head.ref === head)
          .map(pullOf),
      );
    },
    'POST /repos/{owner}/{repo}/pulls': async (call) => {
      const { title, draft, ...body } = call.body;
      const answer = await forge.api(
        ...(['POST', `${repositoryIn(call)}/pulls`] as const),
        { ...body, title: draft === true ? `${draftPrefix}${String(title)}` : title },
        call.token,
      );
      if (answer.status === 409)
        return refused(
          `A pull request already exists for ${call.params['owner'] ?? ''}:${String(body['head'])}.`,
        );
      return answer.status === 404 || answer.status === 422
        ? refused('One of the branches is invalid.')
        : answerOf(answer, pull);
    },
    'GET /repos/{owner}/{repo}/pulls/{pull_number}': (call) =>
      read(call, `/pulls/${call.params['pull_number'] ?? ''}`, pull),
    'GET /repos/{owner}/{repo}/pulls/{pull_number}/comments': () => ({ status: 200, body: [] }),
    'GET /repos/{owner}/{repo}/issues/{issue_number}/comments': (call) =>
      read(call, `/issues/${call.params['issue_number'] ?? ''}/comments`, (body) =>
        z.array(commentSchema).parse(body).map(commentOf),
      ),
    'POST /repos/{owner}/{repo}/issues/{issue_number}/comments': async (call) =>
      answerOf(
        await forge.api(
          ...([
            'POST',
            `${repositoryIn(call)}/issues/${call.params['issue_number'] ?? ''}/comments`,
          ] as const),
          call.body,
          call.token,
        ),
        (body) => commentOf(commentSchema.parse(body)),
      ),
  };
}
