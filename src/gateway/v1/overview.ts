import { type Route, endpoints } from '../http/route.ts';
import type { Services } from '../services.ts';
import { Overview } from '../overview/overview.ts';
import { overviewSchema } from '../overview/schemas.ts';
import type { HealthOptions } from './health.ts';
import { onlyAdmin } from '../errors/problem-error.ts';

const { get } = endpoints('admin');

export function overviewRoutes(
  services: Services,
  { version, uptimeSeconds }: Pick<HealthOptions, 'version' | 'uptimeSeconds'>,
): readonly Route[] {
  const overview = new Overview({ ...services, version, uptimeSeconds });
  return [
    get('/api/v1/admin/overview', 'getOverview', {
      summary:
        'For an admin: the state of the service, what each owner uses, and who waits for what; at most 2 s old',
      responses: { 200: overviewSchema },
      problems: ['forbidden'],
      handle: ({ principal }) => {
        if (principal.role !== 'admin') throw onlyAdmin('read the state of the service');
        return { jsonText: overview.text };
      },
    }),
  ];
}
