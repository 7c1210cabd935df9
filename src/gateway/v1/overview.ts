import { type Route, endpoints } from '../http/route.ts';
import { Overview, type OverviewSources } from '../overview/overview.ts';
import { overviewSchema } from '../overview/schemas.ts';
import { onlyAdmin } from '../errors/problem-error.ts';

const { get } = endpoints('admin');

export function overviewRoutes(sources: OverviewSources): readonly Route[] {
  const overview = new Overview(sources);
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
