import type { Route } from '../http/route.ts';
import { deviceRoutes } from './device-routes.ts';
import { signInRoutes } from './routes.ts';

type Dependencies = Parameters<typeof signInRoutes>[0] & Parameters<typeof deviceRoutes>[0];

/** The pages on which people and their programs sign in. */
export const peopleRoutes = (needs: Dependencies): readonly Route[] => [
  ...signInRoutes(needs),
  ...deviceRoutes(needs),
];
