import { conversationRoutes, interruptRoute } from './conversations/conversations.ts';
import { legacyRoutes } from './conversations/legacy.ts';
import { ConversationSearch } from './conversations/search.ts';
import { startTaskRoutes } from './conversations/start-tasks.ts';
import { lifeRoutes } from './conversations/life.ts';
import { routesOfSandboxes } from './sandboxes/routes.ts';
import { routesOfSettings } from './settings/settings.ts';
import { historyRoutes } from './history/routes.ts';
import type { Route } from './http/route.ts';
import { openApiRoutes } from './pages/docs.ts';
import { appRoutes, sharedPageRoute } from './pages/app.ts';
import { chatRoute } from './pages/ui.ts';
import type { Services } from './services.ts';
import { routesOfSharing } from './sharing/routes.ts';
import { peopleRoutes } from './sign-in/people-routes.ts';
import { streamRoute } from './stream/live-stream.ts';
import { accountRoutes, keyRoutes } from './keys/keys.ts';
import { approvalRoutes } from './approvals/approvals.ts';
import { gitRoutes } from './git/directory.ts';
import { handoverRoutes } from './handovers/handovers.ts';
import { healthRoutes, type HealthOptions } from './pages/health.ts';
import { overviewRoutes } from './overview/overview.ts';
import { pullRequestRoutes } from './pull-requests/routes.ts';
import { quotaRoutes } from './quota/quota.ts';
import { webUiRoutes } from './web-ui/routes.ts';

/** Every endpoint of the gateway, in the order of the OpenAPI document. */
export function routesOf(
  services: Services,
  {
    health,
    live,
  }: { readonly health: HealthOptions; readonly live: Parameters<typeof streamRoute>[1] },
): readonly Route[] {
  const search = new ConversationSearch();
  const documented = [
    ...conversationRoutes(services, search),
    ...startTaskRoutes(services, search),
    streamRoute(services, live),
    ...historyRoutes(services),
    ...approvalRoutes(services),
    ...handoverRoutes(services),
    ...pullRequestRoutes(services),
    ...lifeRoutes(services),
    interruptRoute(services),
    ...routesOfSharing(services),
    ...routesOfSandboxes(services),
    ...accountRoutes,
    ...keyRoutes(services),
    ...quotaRoutes(services),
    ...overviewRoutes({
      ...services,
      version: health.version,
      uptimeSeconds: health.uptimeSeconds,
    }),
    ...routesOfSettings(services),
    ...gitRoutes(services),
    ...legacyRoutes(services, search),
    chatRoute(services.ui),
    ...peopleRoutes(services),
    ...webUiRoutes(services),
    ...appRoutes({
      files: services.webFiles,
      hasUi: services.ui.files !== undefined,
      isSignedIn: services.ui.isSignedIn,
    }),
    sharedPageRoute({ files: services.webFiles, isSignedIn: services.ui.isSignedIn }),
    ...healthRoutes(health),
  ];
  return [
    ...documented,
    ...openApiRoutes(documented, { version: health.version, publicUrl: services.publicUrl }),
  ];
}
