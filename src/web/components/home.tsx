import { ConversationList } from './conversation-list.tsx';
import { Filters } from './filters.tsx';
import { QuotaPanel } from './quota-panel.tsx';
import { StartForm } from './start-form.tsx';

/** The page that answers what needs a person, what runs, and what one more start would do. */
export const Home = () => (
  <main class="home-page">
    <h1 class="unseen">Conversations</h1>
    <aside>
      <StartForm />
      <QuotaPanel />
    </aside>
    <div class="home-list">
      <Filters />
      <ConversationList />
    </div>
  </main>
);
