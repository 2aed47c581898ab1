"""MIG: the instances of a card, and their shares of it.

Put here: the profile grammar, geometries, layouts, placing, shares, mig-parted's files.
Not here: resource names of a cluster (`domain.gpu`), prices, or any file.
"""

from domain.mig.geometry import WHOLE as WHOLE
from domain.mig.geometry import Geometry as Geometry
from domain.mig.geometry import InstanceProfile as InstanceProfile
from domain.mig.geometry import Share as Share
from domain.mig.geometry import family_geometry as family_geometry
from domain.mig.layouts import Layout as Layout
from domain.mig.layouts import Layouts as Layouts
from domain.mig.layouts import Placement as Placement
from domain.mig.layouts import layouts as layouts
from domain.mig.placing import PlacedLayout as PlacedLayout
from domain.mig.placing import Unplaceable as Unplaceable
from domain.mig.placing import place as place
from domain.mig.profile import MigProfile as MigProfile
from domain.mig.profile import parse_profile as parse_profile
from domain.mig.profile import parse_resource_profile as parse_resource_profile
