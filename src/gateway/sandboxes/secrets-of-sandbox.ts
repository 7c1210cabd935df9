import { sandboxParams } from '../http/fields.ts';
import type { SecretReader } from '../lookup/secret-reader.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { SecretReads } from '../auth/secret-reads.ts';
import { z } from 'zod';
import { endpoints, originOf, type Route } from '../http/route.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { notFound } from '../errors/common-problems.ts';
import { nullableText } from '../presenters/schemas.ts';
import type { Sandbox } from '../../resources/sandbox.ts';

const path = '/api/v1/sandboxes/{id}/settings/secrets';
const { getInSession } = endpoints('sandboxes');
const secretListSchema = z.object({
  secrets: z.array(z.object({ name: z.string(), description: nullableText })),
});
const secretParams = sandboxParams.extend({ name: z.string() });

/** The secrets of one sandbox, for its owner and for clients with its session key. */
export function sandboxSettingsRoutes({
  lookup,
  secrets,
  secretReads,
}: {
  readonly lookup: ResourceLookup;
  readonly secrets: SecretReader;
  readonly secretReads: SecretReads;
}): readonly Route[] {
  /** The sandbox. Requests with a session key have no `owner`, and read it from the cache only. */
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
      scope: 'secrets',
      summary:
        'The value of a secret, for an API key or a session key, unless a session in a browser has made or read that key',
      params: secretParams,
      responses: { 200: z.string() },
      mediaType: 'text/plain',
      problems: ['not-found', 'forbidden', 'secret-unreadable'],
      handle: async ({ owner, params: { id, name }, response }) => {
        const { principal, chain } = response.locals;
        const sandbox = await sandboxOf(owner, id);
        // A chain with a browser session is rejected: a script in a page could use the session
        // cookie to create API keys and read session keys.
        if (chain?.hasSession !== false)
          throw new ProblemError(
            'forbidden',
            'A session in a browser, and the keys that it has made or read, show no value of a secret: use another API key.',
          );
        secretReads.admit(sandbox);
        const value = await secrets.valueFor(sandbox, name, secrets.conversationsIn(sandbox));
        if (value === undefined) throw notFound('secret');
        secretReads.record({
          ...originOf(response),
          ...chain.holder,
          sandbox,
          secret: name,
          by: principal === undefined ? 'session key' : principal.keyName,
        });
        return { plainText: value };
      },
    }),
  ];
}
