import type { Route } from '../http/route.ts';
import { secretRoutes } from './secrets.ts';
import { settingsRoutes, unsupportedRoutes } from './settings.ts';

type Dependencies = Parameters<typeof settingsRoutes>[0] & Parameters<typeof secretRoutes>[0];

/** Settings and secrets of owners. */
export const routesOfSettings = (needs: Dependencies): readonly Route[] => [
  ...unsupportedRoutes,
  ...settingsRoutes(needs),
  ...secretRoutes(needs),
];
