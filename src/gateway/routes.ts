import { routesOfConversations } from './conversations/routes.ts';
import { historyRoutes } from './history/routes.ts';
import type { Route } from './http/route.ts';
import { openApiRoutes } from './pages/docs.ts';
import { appRoutes } from './pages/app.ts';
import { chatRoute } from './pages/ui.ts';
import type { Services } from './services.ts';
import { signInRoutes } from './sign-in/routes.ts';
import { streamRoute } from './stream/live-stream.ts';
import type { LiveState } from './stream/live-state.ts';
import { accountRoutes, keyRoutes } from './keys/keys.ts';
import { approvalRoutes } from './approvals/approvals.ts';
import { gitRoutes } from './git/routes.ts';
import { healthRoutes, type HealthOptions } from './pages/health.ts';
import { overviewRoutes } from './overview/overview.ts';
import { pullRequestRoutes } from './pull-requests/routes.ts';
import { quotaRoutes } from './quota/quota.ts';
import { sandboxSettingsRoutes } from './sandboxes/secrets-of-sandbox.ts';
import { secretRoutes } from './settings/secrets.ts';
import { sandboxSpecRoutes } from './sandboxes/sandbox-specs.ts';
import { sandboxRoutes } from './sandboxes/sandboxes.ts';
import { settingsRoutes, unsupportedRoutes } from './settings/settings.ts';
import { webUiRoutes } from './web-ui/routes.ts';

/** Every endpoint of the gateway, in the order of the OpenAPI document. */
export function routesOf(
  services: Services,
  { health, live }: { readonly health: HealthOptions; readonly live: LiveState },
): readonly Route[] {
  const documented = [
    ...routesOfConversations(services, live.responses),
    streamRoute(services, live),
    ...historyRoutes(services),
    ...approvalRoutes(services),
    ...pullRequestRoutes(services),
    ...sandboxRoutes(services),
    ...sandboxSettingsRoutes(services),
    ...sandboxSpecRoutes(services),
    ...accountRoutes,
    ...keyRoutes(services),
    ...quotaRoutes(services),
    ...overviewRoutes({
      ...services,
      version: health.version,
      uptimeSeconds: health.uptimeSeconds,
    }),
    ...unsupportedRoutes,
    ...settingsRoutes(services),
    ...secretRoutes(services),
    ...gitRoutes(services),
    chatRoute(services.ui),
    ...signInRoutes(services),
    ...webUiRoutes(services),
    ...appRoutes({
      files: services.webFiles,
      hasUi: services.ui.files !== undefined,
      isSignedIn: services.ui.isSignedIn,
    }),
    ...healthRoutes(health),
  ];
  return [
    ...documented,
    ...openApiRoutes(documented, { version: health.version, publicUrl: services.publicUrl }),
  ];
}
