/** Light, dark, or as the system: as the console keeps it in this browser. */
const theme = localStorage.getItem('weft.theme')
if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme
