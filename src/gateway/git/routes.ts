import type { GitDirectory, GitHosts } from './static-directory.ts';
import { z } from 'zod';
import { type Route, endpoints } from '../http/route.ts';
import { pageSchema } from '../presenters/schemas.ts';
import { paging, unusedParameter } from '../http/fields.ts';

const { get } = endpoints('git');

const search = z.object({
  provider: z.string().max(64).optional().describe('By default the first one that is configured.'),
  query: z.string().max(2048).default(''),
  limit: paging.limit,
  page_id: unusedParameter('there is one page.'),
});
const repositorySchema = z.object({
  id: z.string(),
  full_name: z.string(),
  git_provider: z.string(),
  is_public: z.boolean(),
  main_branch: z.string(),
});
const branchSchema = z.object({ name: z.string(), commit_sha: z.string(), protected: z.boolean() });

export const gitRoutes = ({
  gitHosts,
  git,
}: {
  readonly gitHosts: GitHosts;
  readonly git: GitDirectory;
}): readonly Route[] => {
  const [first = ''] = Object.keys(gitHosts);
  return [
    get('/api/v1/git/repositories/search', 'searchRepositories', {
      summary: 'Repositories on the configured git hosts by name or URL',
      query: search.extend({
        installation_id: unusedParameter('repositories are found by their name or URL.'),
      }),
      responses: { 200: pageSchema(repositorySchema) },
      handle: async ({ owner, query: { provider = first, query, limit } }) => {
        const found = await git.repositories({ owner, provider, query, limit });
        const items = found.map(({ name, isPublic, defaultBranch }) => ({
          id: name,
          full_name: name,
          git_provider: provider,
          is_public: isPublic,
          main_branch: defaultBranch,
        }));
        return { json: { items, next_page_id: null } };
      },
    }),
    get('/api/v1/git/branches/search', 'searchBranches', {
      summary: 'Branches of a repository',
      query: search.extend({ repository: z.string().max(255) }),
      responses: { 200: pageSchema(branchSchema) },
      handle: async ({ owner, query: { provider = first, repository, query, limit } }) => {
        const found = await git.branches({ owner, provider, repository, query, limit });
        const items = found.map(({ name, commitSha }) => ({
          name,
          commit_sha: commitSha,
          protected: false,
        }));
        return { json: { items, next_page_id: null } };
      },
    }),
  ];
};
