import { z } from 'zod';
import { endpoints, type Route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { notFound } from '../errors/problem-error.ts';
import { nullableText } from '../presenters/schemas.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { sandboxParams } from './schemas.ts';

const path = '/api/v1/sandboxes/{id}/settings/secrets';
const { getInSession } = endpoints('sandboxes');
const secretListSchema = z.object({
  secrets: z.array(z.object({ name: z.string(), description: nullableText })),
});
const secretParams = sandboxParams.extend({ name: z.string() });

/** The secrets of one sandbox, for its owner and for clients with its session key. */
export function sandboxSettingsRoutes({ lookup, secrets, audit }: Services): readonly Route[] {
  /** Where the request shows the session key, its sandbox is in the cache. */
  const sandboxOf = async (owner: string | undefined, id: string): Promise<Sandbox> => {
    const sandbox = owner === undefined ? lookup.sandboxNamed(id) : await lookup.sandbox(owner, id);
    if (sandbox === undefined) throw notFound('sandbox');
    return sandbox;
  };
  return [
    getInSession(path, 'listSandboxSecrets', {
      summary: 'The secrets that agents in a sandbox may read, without their values',
      params: sandboxParams,
      responses: { 200: secretListSchema },
      problems: ['not-found'],
      handle: async ({ owner, params }) => {
        const sandbox = await sandboxOf(owner, params.id);
        return { json: { secrets: [...secrets.namesFor(sandbox)] } };
      },
    }),
    getInSession(`${path}/{name}`, 'getSandboxSecret', {
      summary: 'The value of a secret',
      params: secretParams,
      responses: { 200: z.string() },
      mediaType: 'text/plain',
      problems: ['not-found', 'secret-unreadable'],
      handle: async ({ owner, params: { id, name }, response }) => {
        const sandbox = await sandboxOf(owner, id);
        const value = await secrets.valueFor(sandbox, name, secrets.conversationsIn(sandbox));
        if (value === undefined) throw notFound('secret');
        const { requestId, principal } = response.locals;
        audit.info('SecretRead', {
          requestId,
          ...{ owner: sandbox.spec.owner, sandbox: sandbox.metadata.name, secret: name },
          by: principal === undefined ? 'session key' : principal.keyName,
        });
        return { plainText: value };
      },
    }),
  ];
}
