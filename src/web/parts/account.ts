export { SettingsPage } from '../components/settings/settings-page.tsx';
