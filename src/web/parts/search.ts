export { SearchResults } from '../components/search-results.tsx';
