import type { Route } from '../http/route.ts';
import { downloadRoute } from './download.ts';
import { eventRoutes, liveRoute } from './events.ts';
import { fileRoutes } from './files.ts';
import { textSearchRoute } from './text-search.ts';
import type { Services } from '../services.ts';

/** Reads of what was said and done in conversations, and of their files. */
export const historyRoutes = (needs: Services): readonly Route[] => [
  ...eventRoutes(needs),
  liveRoute(needs),
  downloadRoute(needs),
  textSearchRoute(needs),
  ...fileRoutes(needs),
];
