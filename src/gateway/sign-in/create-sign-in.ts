import type { Logger } from '@conversation-operator/base/logger';
import type { ApiKey } from '../../resources/api-key.ts';
import type { Audit } from '../../observability/audit.ts';
import type { KeyRing } from '../auth/key-ring.ts';
import type { RandomBytes } from '../auth/key.ts';
import type { GatewayOptions } from '../gateway-options.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { DeviceLogins } from './device-logins.ts';
import { IdentityProviders } from './identity-providers.ts';
import { PersonChecks } from './person-checks.ts';
import { ServiceAccounts } from './service-accounts.ts';
import { Sessions } from './sessions.ts';

interface SignInParts {
  readonly ring: KeyRing;
  readonly lookup: Pick<ResourceLookup, 'apiKeysOf' | 'everyApiKey'>;
  readonly feeds: { readonly apiKeys: ObjectFeed<ApiKey> };
  readonly logger: Logger;
  readonly publicUrl: () => string;
  readonly random: RandomBytes;
  readonly audit: Audit;
}

/** Creates the ways to use the gateway without an API key: sessions, and tokens of the cluster. */
export function createSignIn(
  { client, namespace, clock, keys, maxKeyLifetimeMs, signIn }: GatewayOptions,
  { ring, lookup, feeds, logger, audit, publicUrl, random }: SignInParts,
) {
  const { issuers = [], outward, serviceAccounts } = signIn ?? {};
  const sessions = new Sessions({
    client,
    namespace,
    clock,
    keys,
    ring,
    lookup,
    feeds,
    publicUrl,
    random,
    audit,
    ...(maxKeyLifetimeMs === undefined ? {} : { maxKeyLifetimeMs }),
  });
  const identityProviders = new IdentityProviders({
    issuers,
    clock,
    logger,
    publicUrl,
    ...(outward && { outward }),
  });
  return {
    sessions,
    identityProviders,
    personChecks: new PersonChecks({ sessions, identityProviders, clock, logger }),
    deviceLogins: new DeviceLogins({
      client,
      namespace,
      clock,
      keys,
      ring,
      lookup,
      feed: feeds.apiKeys,
      random,
    }),
    serviceAccounts:
      serviceAccounts &&
      new ServiceAccounts({
        ...serviceAccounts,
        client,
        namespace,
        clock,
        logger,
        ring,
        lookup,
        feed: feeds.apiKeys,
        random,
        audit,
      }),
  };
}
