import type { Route } from '../http/route.ts';
import { downloadRoute } from './download.ts';
import { eventRoutes, liveRoute } from './events.ts';
import { fileRoutes } from './files.ts';
import { textSearchRoute } from './text-search.ts';

type Dependencies = Parameters<typeof downloadRoute>[0] &
  Parameters<typeof fileRoutes>[0] &
  Parameters<typeof textSearchRoute>[0];

export const historyRoutes = (needs: Dependencies): readonly Route[] => [
  ...eventRoutes(needs),
  liveRoute(needs),
  downloadRoute(needs),
  textSearchRoute(needs),
  ...fileRoutes(needs),
];
