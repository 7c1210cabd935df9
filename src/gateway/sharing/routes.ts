import type { Route } from '../http/route.ts';
import { sharedRoutes } from './shared-reads.ts';
import { shareRoutes } from './share-routes.ts';

type Needs = Parameters<typeof shareRoutes>[0] & Parameters<typeof sharedRoutes>[0];

export const routesOfSharing = (needs: Needs): readonly Route[] => [
  ...shareRoutes(needs),
  ...sharedRoutes(needs),
];
