import { z } from 'zod';
import { endpoints, type Route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { ProblemError, notFound } from '../errors/problem-error.ts';
import { sandboxParams } from './schemas.ts';

const path = '/api/v1/sandboxes/{id}/settings/secrets';
const { getInSession } = endpoints('sandboxes');
const secretListSchema = z.object({
  secrets: z.array(z.object({ name: z.string(), description: z.string().nullable() })),
});
const secretParams = sandboxParams.extend({ name: z.string() });

/**
 * Endpoints for clients with the session key of a sandbox. Agents get secrets from their template,
 * so the list of secrets is empty.
 */
export function sandboxSettingsRoutes({ lookup }: Services): readonly Route[] {
  const refuseForeign = async (owner: string | undefined, id: string) => {
    if (owner !== undefined && (await lookup.sandbox(owner, id)) === undefined)
      throw notFound('sandbox');
  };
  return [
    getInSession(path, 'listSandboxSecrets', {
      summary: 'The names of the secrets that are handed out over REST: none',
      params: sandboxParams,
      responses: { 200: secretListSchema },
      problems: ['not-found'],
      handle: async ({ owner, params }) => {
        await refuseForeign(owner, params.id);
        return { json: { secrets: [] } };
      },
    }),
    getInSession(`${path}/{name}`, 'getSandboxSecret', {
      summary: 'The value of a secret: there is none',
      params: secretParams,
      responses: {},
      problems: ['not-found'],
      handle: async ({ owner, params }) => {
        await refuseForeign(owner, params.id);
        throw new ProblemError('not-found', 'There is no such secret.');
      },
    }),
  ];
}
