import type { Route } from './http/route.ts';
import { openApiRoutes } from './pages/docs.ts';
import { appRoutes } from './pages/app.ts';
import { chatRoute } from './pages/ui.ts';
import type { Services } from './services.ts';
import { signInRoutes } from './sign-in/routes.ts';
import { legacyRoutes } from './v0/conversations.ts';
import { streamRoute } from './stream/route.ts';
import type { LiveState } from './stream/live-state.ts';
import { accountRoutes, keyRoutes } from './v1/keys.ts';
import { approvalRoutes } from './v1/approvals.ts';
import { conversationRoutes, interruptRoute } from './v1/conversations.ts';
import { downloadRoute } from './history/download.ts';
import { eventRoutes } from './history/events.ts';
import { fileRoutes } from './history/files.ts';
import { gitRoutes } from './v1/git.ts';
import { healthRoutes, type HealthOptions } from './v1/health.ts';
import { lifeRoutes } from './v1/life.ts';
import { liveRoute } from './history/live.ts';
import { overviewRoutes } from './v1/overview.ts';
import { pullRequestRoutes } from './v1/pull-requests.ts';
import { quotaRoutes } from './v1/quota.ts';
import { sandboxSettingsRoutes } from './v1/sandbox-settings.ts';
import { secretRoutes } from './v1/secrets.ts';
import { sandboxSpecRoutes } from './v1/sandbox-specs.ts';
import { sandboxRoutes } from './v1/sandboxes.ts';
import { ConversationSearch } from './v1/search.ts';
import { settingsRoutes, unsupportedRoutes } from './v1/settings.ts';
import { startTaskRoutes } from './v1/start-tasks.ts';
import { textSearchRoute } from './history/text-search.ts';
import { webUiRoutes } from './web-ui/routes.ts';

/** Every endpoint of the gateway, in the order of the OpenAPI document. */
export function routesOf(
  services: Services,
  { health, live }: { readonly health: HealthOptions; readonly live: LiveState },
): readonly Route[] {
  const search = new ConversationSearch();
  const documented = [
    ...conversationRoutes(services, search, live.responses),
    ...startTaskRoutes(services, search),
    streamRoute(services, live),
    ...eventRoutes(services),
    liveRoute(services),
    downloadRoute(services),
    textSearchRoute(services),
    ...fileRoutes(services),
    ...approvalRoutes(services),
    ...pullRequestRoutes(services),
    ...lifeRoutes(services),
    interruptRoute(services),
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
    ...legacyRoutes(services, search),
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
