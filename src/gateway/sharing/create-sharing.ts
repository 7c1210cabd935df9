import type { GatewayOptions } from '../gateway-options.ts';
import { groupsIn } from '../sign-in/identity.ts';
import { OpenShares } from './open-shares.ts';

type Needs = Omit<ConstructorParameters<typeof OpenShares>[0], 'namespace' | 'clock'>;

/** Creates what the routes of shares need. The caller closes `openShares`. */
export const createSharing = ({ namespace, clock, signIn }: GatewayOptions, needs: Needs) => ({
  groups: groupsIn(signIn?.issuers ?? []),
  openShares: new OpenShares({ ...needs, namespace, clock }),
});
