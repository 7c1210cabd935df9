import type { Route } from '../http/route.ts';
import { sandboxSpecRoutes } from './sandbox-specs.ts';
import { sandboxRoutes } from './sandboxes.ts';
import { sandboxSettingsRoutes } from './secrets-of-sandbox.ts';

type Dependencies = Parameters<typeof sandboxRoutes>[0] &
  Parameters<typeof sandboxSettingsRoutes>[0];

export const routesOfSandboxes = (needs: Dependencies): readonly Route[] => [
  ...sandboxRoutes(needs),
  ...sandboxSettingsRoutes(needs),
  ...sandboxSpecRoutes(needs),
];
