import { z } from 'zod';
import { keyRoute, type Route } from '../http/route.ts';
import { pageSchema } from '../presenters/schemas.ts';

const tag = 'settings';
const nothing = z.object({});
const page = pageSchema(nothing);
const emptyPage = { items: [], next_page_id: null };

interface Absence {
  readonly path: string;
  readonly operationId: string;
  readonly summary: string;
  readonly answer?: z.ZodType;
  readonly json?: object;
}

const absences: readonly Absence[] = [
  {
    path: '/api/organizations',
    operationId: 'listOrganizations',
    summary: 'Organizations: there are none, an API key belongs to an owner',
    answer: z.object({ items: z.array(nothing), current_org_id: z.null() }),
    json: { items: [], current_org_id: null },
  },
  {
    path: '/api/v1/settings/profiles',
    operationId: 'listModelProfiles',
    summary: 'Profiles of models: there are none, models are configured with the sandboxes',
    answer: z.object({ profiles: z.array(nothing), active_profile: z.null() }),
    json: { profiles: [], active_profile: null },
  },
  {
    path: '/api/v1/config/models/search',
    operationId: 'searchModels',
    summary: 'Models to choose from: there are none, they are configured with the sandboxes',
  },
  {
    path: '/api/v1/config/providers/search',
    operationId: 'searchModelProviders',
    summary: 'Providers of models to choose from: there are none',
  },
  {
    path: '/api/v1/git/installations/search',
    operationId: 'searchGitInstallations',
    summary:
      'Installations of an app on a git host: there are none, repositories are found by their name or URL',
  },
];

/**
 * Empty endpoints that the official web UI expects of every cloud: each 404 would show its users an
 * error message.
 */
export const unsupportedRoutes: readonly Route[] = absences.map(
  ({ path, operationId, summary, answer = page, json = emptyPage }) =>
    keyRoute({
      method: 'get',
      path,
      operationId,
      tag,
      summary,
      responses: { 200: answer },
      handle: () => ({ json }),
    }),
);
