import { z } from 'zod';
import type { Route } from '../http/route.ts';
import { pageSchema } from '../presenters/schemas.ts';
import { endpoints } from './endpoints.ts';

const { get } = endpoints('settings');

const nothing = z.object({});
const page = pageSchema(nothing);
const emptyPage = { items: [], next_page_id: null };

/** An endpoint with the same answer for every request, by default an empty page. */
export const constantRoute = (
  path: string,
  operationId: string,
  summary: string,
  answer: z.ZodType = page,
  json: object = emptyPage,
): Route =>
  get(path, operationId, { summary, responses: { 200: answer }, handle: () => ({ json }) });

/**
 * Empty endpoints that the official web UI expects of every cloud: each 404 would show its users an
 * error message.
 */
export const unsupportedRoutes: readonly Route[] = [
  constantRoute(
    '/api/organizations',
    'listOrganizations',
    'Organizations: there are none, an API key belongs to an owner',
    z.object({ items: z.array(nothing), current_org_id: z.null() }),
    { items: [], current_org_id: null },
  ),
  constantRoute(
    '/api/v1/settings/profiles',
    'listModelProfiles',
    'Profiles of models: there are none, models are configured with the sandboxes',
    z.object({ profiles: z.array(nothing), active_profile: z.null() }),
    { profiles: [], active_profile: null },
  ),
  constantRoute(
    '/api/v1/config/models/search',
    'searchModels',
    'Models to choose from: there are none, they are configured with the sandboxes',
  ),
  constantRoute(
    '/api/v1/config/providers/search',
    'searchModelProviders',
    'Providers of models to choose from: there are none',
  ),
  constantRoute(
    '/api/v1/git/installations/search',
    'searchGitInstallations',
    'Installations of an app on a git host: there are none, repositories are found by their name or URL',
  ),
];
